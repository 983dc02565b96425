"""Array programs: the vector-clock scan over integer-coded events, and what it needs before and after.

Law. Every function here is pure: arrays in, arrays out, no Spark, no files, no clock. Each answer equals the one that
`thence.model.order` gives by definition; the tests hold the two against each other on random traces.

- `texts`: the texts of a row, which cross from Java to Python as one, taken apart.
- `packing`: tables as bytes, and parted by where their rows go.
- `rows`: a table of events, its strings coded once as integers.
- `sift`: which rows the definition speaks of, and why not the others.
- `derive`: an order in which causes come first, or the deliveries that lie on a cycle.
- `scan`: the inner loops. Clocks, lateness, the first delivery that came too early.
- `whole`: all that is known of one run from all its rows.
- `chunk`, `compose`: the same from slices of time, each seen alone, put together in order.

This package is the only importer of numba.
"""
