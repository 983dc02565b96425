"""The audit in three stages: choose a route, move rows, judge; the plan, and its driver in this process.

    import thence
    with thence.audit("trace.jsonl") as result:
        result.verdict, result.violations, result.paths()

- `route`: which way rows take to their judge, and why; the one place where that is decided.
- `row_groups`: Parquet footers, chunks of row groups, and reading them.
- `plan`, `transport`: which partition judges which rows; rows packed on their way there.
- `stages`: what a task does: judge whole runs, summarise chunks, merge summaries, prove violations.
- `rounds`: what is judged again, and how; the same for every engine.
- `event_rows`, `scratch`: the events behind findings, for proofs; a scratch folder for rows that memory does not hold.
- `local`, `arrays`: the engine in this process; `thence.tables.engines.spark.audit` is the one on Spark.
- `result`: what an audit found, the same for every driver: verdict, lists, JSON, sentences, exit code.
"""
