"""Avro's binary encoding, read by its schema: what Kafka's Avro converters write, without a schema registry.

Law. `decode` gives what JSON would give: records as dicts, maps as dicts, arrays as lists, enums and strings as
texts, bytes and fixed as bytes. Logical types are not interpreted. Whatever the bytes say that can not be (a length
below zero, an index outside its union, an end too early, bytes left over) is a `PeerError`.

The Confluent header is one zero byte and a schema id of four bytes, big end first; `schemas` maps those ids to
schemas, as parsed JSON or as its text.

References: Apache Avro 1.11 specification, "Binary encoding"; Confluent Schema Registry, "Wire format".
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Mapping

from thence.errors import MisuseError, PeerError
from thence.model.plain import Field, Fields, Json, Row

Schemas = Mapping[int, Json]
MAGIC = 0
_HEADER = 5
_NAMED = ("record", "error", "enum", "fixed")


def is_confluent(data: bytes) -> bool:
    """Tell whether bytes begin as the Confluent converters write them; no JSON text begins with a zero byte."""
    return len(data) >= _HEADER and data[0] == MAGIC


def decode_confluent(data: bytes, schemas: Schemas) -> Field:
    """Decode one value by the schema that its header names."""
    number = int.from_bytes(data[1:_HEADER], "big")
    if number not in schemas:
        known = ", ".join(map(str, sorted(schemas))) or "none"
        raise PeerError(f"Avro of schema {number}, which is not among the schemas given: {known}")
    return decode(data[_HEADER:], schemas[number])


def decode(data: bytes, schema: Json) -> Field:
    """Decode one value; every byte must be used."""
    parsed = json.loads(schema) if isinstance(schema, str) and schema[:1] in '{["' else schema
    reader = _Reader(data, parsed)
    value = reader.read(parsed)
    if reader.at != len(data):
        raise PeerError(f"Avro value of {len(data)} bytes ends after {reader.at}; is it of another schema?")
    return value


def _full_name(schema: Fields, space: str) -> str:
    name = str(schema["name"])
    return name if "." in name else ".".join(filter(None, (schema.get("namespace", space), name)))


class _Reader:
    """The bytes of one value, and the named types of its schema."""

    def __init__(self, data: bytes, schema: Json) -> None:
        self.data, self.at = data, 0
        self.named: Row = {}
        self._collect(schema, "")

    def _collect(self, schema: Json, space: str) -> None:
        """Learn the named types, those in branches that the value does not take too."""
        if isinstance(schema, list):
            for each in schema:
                self._collect(each, space)
        elif isinstance(schema, dict):
            if "name" in schema and schema["type"] in _NAMED:
                name = _full_name(schema, space)
                self.named[name], space = schema, name.rpartition(".")[0]
            for each in (schema["type"], schema.get("items"), schema.get("values")):
                self._collect(each, space)
            for field in schema.get("fields", ()):
                self._collect(field["type"], space)

    def read(self, schema: Json, space: str = "") -> Field:
        if isinstance(schema, list):
            return self.read(self._pick(schema, self.number(), "union"), space)
        if isinstance(schema, str):
            plain = _PLAIN.get(schema)
            return plain(self) if plain else self._known(schema, space)
        kind = schema["type"]
        if kind in _NAMED:
            space = _full_name(schema, space).rpartition(".")[0]
        make = _COMPLEX.get(kind) if isinstance(kind, str) else None
        return make(self, schema, space) if make else self.read(kind, space)

    def take(self, count: int) -> bytes:
        if count < 0 or self.at + count > len(self.data):
            raise PeerError(f"Avro value ends at byte {len(self.data)}; {count} more were announced at byte {self.at}")
        self.at += count
        return self.data[self.at - count : self.at]

    def number(self) -> int:
        """Read a zigzag number of at most ten bytes."""
        value = 0
        for shift in range(0, 70, 7):
            byte = self.take(1)[0]
            value |= (byte & 127) << shift
            if byte < 128:
                return (value >> 1) ^ -(value & 1)
        raise PeerError(f"Avro number of more than ten bytes at byte {self.at}")

    def _pick(self, choices: list[Json], index: int, what: str) -> Json:
        if not 0 <= index < len(choices):
            raise PeerError(f"Avro {what} has {len(choices)} choices, the value names number {index}")
        return choices[index]

    def _known(self, name: str, space: str) -> Field:
        for full in (name, f"{space}.{name}"):
            if full in self.named:
                return self.read(self.named[full], space)
        raise MisuseError(f"Avro schema names type {name!r}, which it does not define")

    def record(self, schema: Fields, space: str) -> Row:
        return {field["name"]: self.read(field["type"], space) for field in schema["fields"]}

    def enum(self, schema: Fields, space: str) -> Field:
        return self._pick(schema["symbols"], self.number(), "enum")

    def fixed(self, schema: Fields, space: str) -> bytes:
        return self.take(int(schema["size"]))

    def blocks(self, item: Callable[[], object]) -> None:
        """Read blocks of items until an empty one; a count below zero is followed by the block's size in bytes."""
        while count := self.number():
            if count < 0:
                count, _ = -count, self.number()
            for _ in range(count):
                before = self.at
                item()
                if self.at == before and count > len(self.data):
                    raise PeerError(f"Avro block announces {count} items of no bytes")

    def array(self, schema: Fields, space: str) -> list[Field]:
        out: list[Field] = []
        self.blocks(lambda: out.append(self.read(schema["items"], space)))
        return out

    def map(self, schema: Fields, space: str) -> Row:
        out: Row = {}
        self.blocks(lambda: out.update({self.string(): self.read(schema["values"], space)}))
        return out

    def string(self) -> str:
        try:
            return self.take(self.number()).decode()
        except UnicodeDecodeError as error:
            raise PeerError(f"Avro string is not UTF-8: {error}") from None


_PLAIN: Mapping[str, Callable[[_Reader], Field]] = {
    "null": lambda reader: None,
    "boolean": lambda reader: reader.take(1) != b"\0",
    "int": _Reader.number,
    "long": _Reader.number,
    "float": lambda reader: struct.unpack("<f", reader.take(4))[0],
    "double": lambda reader: struct.unpack("<d", reader.take(8))[0],
    "bytes": lambda reader: reader.take(reader.number()),
    "string": _Reader.string,
}
_COMPLEX: Mapping[str, Callable[[_Reader, Fields, str], Field]] = {
    "record": _Reader.record,
    "error": _Reader.record,
    "enum": _Reader.enum,
    "fixed": _Reader.fixed,
    "array": _Reader.array,
    "map": _Reader.map,
}
