"""Values in Avro, as Kafka's Avro converters write them, read by fastavro and without a schema registry.

Values come out as JSON would have them: records and maps as dicts, arrays as lists, enums and strings as texts, bytes
and fixed as bytes; logical types are not interpreted. Bytes that are not of the schema are a `PeerError`.

The Confluent header is one zero byte and a schema id of four bytes, big end first; `schemas` maps those ids to
schemas, as parsed JSON or as its text.

References: Apache Avro 1.11 specification, "Binary encoding"; Confluent Schema Registry, "Wire format".
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from io import BytesIO
from typing import Any

from thence.core.model.plain import Field, Json
from thence.errors import MisuseError, PeerError

Schemas = Mapping[int, Json]
AVRO_MAGIC = 0
_HEADER = 5


def is_confluent(data: bytes) -> bool:
    """Return whether bytes begin as the Confluent converters write them; no JSON text begins with a zero byte."""
    return len(data) >= _HEADER and data[0] == AVRO_MAGIC


def decode_confluent(data: bytes, schemas: Schemas) -> Field:
    """Decode one value by the schema that its header names."""
    number = int.from_bytes(data[1:_HEADER], "big")
    if number not in schemas:
        known = ", ".join(map(str, sorted(schemas))) or "none"
        raise PeerError(f"Avro of schema {number}, which is not among the schemas given: {known}")
    return decode(data[_HEADER:], schemas[number])


def decode(data: bytes, schema: Json) -> Field:
    """Decode one value; every byte must be used."""
    parsed = _parsed(schema if isinstance(schema, str) else json.dumps(schema))
    from fastavro import schemaless_reader

    stream = BytesIO(data)
    try:
        value: Field = schemaless_reader(stream, parsed, None)
    except Exception as error:  # fastavro raises what its C code meets: EOFError, IndexError, UnicodeDecodeError, ...
        why = f"{type(error).__name__}: {error}".rstrip(": ")
        raise PeerError(f"Avro value of {len(data)} bytes is not of its schema ({why})") from error
    if stream.tell() != len(data):
        raise PeerError(f"Avro value of {len(data)} bytes ends after {stream.tell()}; is it of another schema?")
    return value


@lru_cache(maxsize=256)
def _parsed(text: str) -> Any:
    """Return a schema as fastavro wants it, parsed once for all values."""
    try:
        from fastavro import parse_schema
        from fastavro.schema import SchemaParseException, UnknownType
    except ModuleNotFoundError as error:
        raise MisuseError('values in Avro need the package fastavro: pip install "thence[avro]"') from error
    try:
        return parse_schema(_plain(json.loads(text) if text[:1] in '{["' else text))
    except (SchemaParseException, UnknownType, KeyError, ValueError) as error:
        raise MisuseError(f"an Avro schema cannot be used: {type(error).__name__}: {error}") from error


def _plain(schema: Json) -> Json:
    """Return a schema without logical types, for a decimal or a time would not be what JSON has for it."""
    if isinstance(schema, list):
        return [_plain(each) for each in schema]
    if isinstance(schema, dict):
        return {name: _plain(value) for name, value in schema.items() if name != "logicalType"}
    return schema
