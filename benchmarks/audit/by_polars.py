"""The same question as an attempt with data frames: Polars, as far as joins and running maxima carry.

    python benchmarks/audit/by_polars.py FILES...          # in an environment that has polars

A frame has no loop along the rows, and a clock is one: what a message carries depends on what its sender delivered, and
so on. What can be said in columns is one step of it: how much of process s a process has heard directly is a running
maximum over its deliveries; brought to its sends and then to their deliveries that is what the destination knows over
one relay. So a late copy is found if it was overtaken by a message of the same sender, or over one relay; longer chains
are missed, and copies that never came too. Tuned: one column of the clock at a time, so that memory does not grow with
processes; whole numbers instead of names; no join but two. More rounds would find more, at the same price each.
"""

from __future__ import annotations

import json
import sys

import polars as pl


# begin
def violations(paths: list[str]) -> int:
    """Return how many deliveries are late, as far as one relay shows it."""
    names = ["process", "index", "kind", "message", "order"]
    rows = pl.scan_parquet(sorted(paths)).select(names).filter(pl.col("kind").is_in(["send", "deliver"])).collect()
    rows = rows.with_columns(pl.col("process").cast(pl.Categorical).to_physical(), send=pl.col("kind") == "send").drop(
        "kind"
    )
    ids = rows.filter("send").select("message").with_row_index("m")
    rows = rows.join(ids, on="message", how="left").drop("message").sort("order")
    sends = rows.filter("send").sort("m")
    sender, sent_at = sends["process"], sends["index"]
    place = rows.with_row_index("row").filter("send").sort("m")["row"]
    frame = rows.select("process", "send", m=pl.col("m"))
    frame = frame.with_columns(s=sender.gather(frame["m"]), t=sent_at.gather(frame["m"]), i=rows["index"])
    late = pl.zeros(len(frame), dtype=pl.Int64, eager=True).cast(pl.Boolean)
    for column in sender.unique():
        of = (pl.col("s") == column) & ~pl.col("send")
        heard = frame.select(
            pl.when(of).then("t").otherwise(0).cum_max().over("process").alias("direct"), "process", "send", "i"
        ).select(pl.when((pl.col("process") == column) & pl.col("send")).then("i").otherwise("direct"))
        carried = frame.select("process", "send", c=heard.to_series().gather(place).gather(frame["m"]))
        known = carried.select(
            pl.when("send").then(0).otherwise("c").cum_max().over("process").alias("k"), "process"
        ).select(pl.col("k").shift(1, fill_value=0).over("process"))
        late |= frame.select(of & (known.to_series() >= pl.col("t"))).to_series()
    return int(frame.filter(late).select("process", "m").unique().height)


# end


if __name__ == "__main__":
    print(json.dumps(violations(sys.argv[1:])))
