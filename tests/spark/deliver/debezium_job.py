"""The real Debezium engine in a process of its own: change events of a PostgreSQL to a file of JSON lines.

python debezium_job.py PORT FILE TRANSACTIONS      stops once that many END events have come, or never: forever
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any


def main(port: str, target: str, transactions: float) -> None:
    from pydbzengine import BasePythonChangeHandler, DebeziumJsonEngine

    folder = tempfile.mkdtemp(prefix="thence-dbz")
    properties = {
        "name": "engine",
        "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
        "plugin.name": "pgoutput",
        "database.hostname": "127.0.0.1",
        "database.port": port,
        "database.user": "postgres",
        "database.password": "none",
        "database.dbname": "postgres",
        "topic.prefix": "shop",
        "slot.name": "thence",
        "publication.name": "thence",
        "snapshot.mode": "initial",
        "provide.transaction.metadata": "true",
        "skipped.operations": "none",
        "offset.storage": "org.apache.kafka.connect.storage.FileOffsetBackingStore",
        "offset.storage.file.filename": f"{folder}/offsets",
        "offset.flush.interval.ms": "100",
        "converter.schemas.enable": "false",
        "key.converter.schemas.enable": "false",
        "value.converter.schemas.enable": "false",
    }
    out = Path(target).open("w", encoding="utf-8")  # noqa: SIM115 - the engine runs until the process ends
    ended = 0

    class Handler(BasePythonChangeHandler):
        def handleJsonBatch(self, records: Any) -> None:
            nonlocal ended
            for record in records:
                if record.value() is None:
                    continue
                value = json.loads(str(record.value()))
                value = value.get("payload", value)
                key = None if record.key() is None else str(record.key())
                out.write(json.dumps({"topic": str(record.destination()), "key": key, "value": value}) + "\n")
                ended += value.get("status") == "END"
            out.flush()
            if ended >= transactions:
                os._exit(0)

    DebeziumJsonEngine(properties=properties, handler=Handler()).run()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], float("inf") if sys.argv[3] == "forever" else int(sys.argv[3]))
