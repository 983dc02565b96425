"""Array programs: the vector-clock scan over integer-coded events, and what it needs before and after.

Law. Every function here is pure: arrays in, arrays out, no Spark, no files, no clock. Each answer equals the one that
`thence.model.order` gives by definition; the tests hold the two against each other on random traces.

- `arrays`: names for the kinds of arrays.
- `columns`: the columns of the event table as Arrow has them.
- `interning`, `name_codes`, `ids`: texts coded as integers, hashed.
- `packing`: tables as bytes, and split by where their rows go.
- `rows`: a table of events, its strings coded once as integers.
- `usable`: which rows the definition speaks of, and why not the others.
- `derive`: an order in which causes come first, or the deliveries that lie on a cycle.
- `scanning`: clocks, lateness, the first delivery that came too early.
- `label_scan`: the rows of one label, and the scan over them in blocks of columns.
- `judge_run`: all that is known of one run from all its rows.
- `chunk`, `chunk_clocks`, `merge_chunks`: the same from slices of time, each seen alone, put together in order.
- `path`: the causal chains that prove violations.
- `findings`: what is found, as rows of one tagged table.
- `stamps`, `causes`: what the delivery rule asks of stamps, clocks and explicit causes.
- `scan_cy`, `order_cy`, `chunk_clocks_cy`, `path_cy`, `ids_cy`: the loops of the audit, compiled.
"""
