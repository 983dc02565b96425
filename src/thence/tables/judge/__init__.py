"""The audit: choose a route, move rows to their partitions, judge, merge.

    import thence
    with thence.audit("trace.jsonl") as result:
        result.verdict, result.violations, result.paths()

- `route`: how rows get to the task that judges them, and why; the one place where that is decided.
- `row_groups`: Parquet footers, chunks of row groups, and reading them.
- `partition_plan`, `packed_rows`: which partition judges which rows; rows packed on their way there.
- `tasks`: what a task does: judge whole runs, summarise chunks, merge summaries, prove violations.
- `rounds_over_chunks`: what is judged again, and how; the same for every engine.
- `stored_rows`: rows where they are kept, the chunks made of them, and the events behind findings, for proofs.
- `result`: what an audit found, the same for every engine: verdict, lists, JSON, sentences, exit code.

The engines are `thence.tables.engines.local.chunks` and `thence.tables.engines.spark.audit`.
"""
