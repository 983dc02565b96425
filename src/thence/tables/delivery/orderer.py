"""Causal delivery over any plain iterable: no Spark, no JVM, the standard library alone.

    from thence import Orderer

    orderer = Orderer(by="depends_on")
    for row in orderer.deliver(rows):        # dicts in the order of arrival
        print(row["outcome"], row["position"], row["message"], row["reason"])

Invariant: every row comes out exactly once, with the columns of `outcome.OUTPUT_COLUMNS` added; rows of one key keep
the order that `rule_cy.Rule` gives them. `thence.spark.deliver` runs the same rule, so the same arrivals give the same
outcomes there.
"""

from __future__ import annotations

import base64
import json
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from math import isfinite, nan

from thence.core.model.moments import seconds
from thence.core.model.plain import Field, Fields, Json
from thence.errors import MisuseError
from thence.tables.contract.columns import By
from thence.tables.delivery.columns import Columns, Key
from thence.tables.delivery.delivery_rule_cy import Rule
from thence.tables.delivery.delivery_terms import ASK_AT_ONCE, check_known, known_texts
from thence.tables.delivery.outcome import WAITING_COLUMNS
from thence.tables.delivery.outcome_cy import Outcome, Outcomes
from thence.tables.delivery.packed_stamps import read_together
from thence.tables.delivery.packing import Texts, pack, unpack
from thence.tables.delivery.policy import Policy, PolicyName, WhenFull, policy_of
from thence.tables.delivery.reading import Reading, Rosters, rosters_of
from thence.tables.delivery.room_cy import Room
from thence.tables.delivery.rule_state import resumed, state_of
from thence.tables.delivery.state import decode_state, encode_state, ints, spans

Out = dict[str, Field]
"""A row that leaves, with the columns of its outcome."""
BY_HAND = "given up by hand"


class Orderer:
    """Delivers rows in causal order, one state machine for each key."""

    def __init__(
        self,
        by: By = "stamp",
        *,
        roster: Rosters = None,
        key: Iterable[str] | None = None,
        columns: Mapping[str, str] | None = None,
        separator: str | None = None,
        policy: PolicyName | Policy = "wait",
        after_rows: int | None = None,
        after_seconds: float | None = None,
        remember: int | None = None,
        held_limit: int | None = None,
        when_full: WhenFull | None = None,
        max_jump: float | None = None,
        filter_limit: int | None = None,
        known: Callable[[list[str]], Iterable[str]] | None = None,
    ) -> None:
        """Configure how rows name their causes, and what happens to rows whose causes do not come.

        Args:
            by: what rows say about their causes: `depends_on` (explicit ids), `clock` (vector clocks) or `stamp`
                (thence's stamps). It is `stamp` by default, unlike for `thence.deliver` and `Gate`.
            roster: the processes in order of position, for stamps.
            key: the columns whose values separate independent orders; (run, destination) if not given.
            columns: your names for columns of the contract, as in `{"message": "event_id"}`.
            separator: what stands between the ids where one text names several causes.
            policy: `wait` (forever), `release` or `fail` when a limit is reached, or a `thence.Policy`, which has its
                own limits.
            after_rows: with `release` and `fail`: how many later rows of the key may arrive while a row is held.
            after_seconds: with `release` and `fail`: how far the event time of the key may advance while a row is held.
            remember: how many delivered ids of a key are kept in full; of older ones only a fingerprint of 8 bytes is
                kept.
            held_limit: how many rows of a key may be held at a time.
            when_full: what happens beyond `held_limit`: `fail`, or `release` the oldest row.
            max_jump: ignore a row's time if it is more than this many seconds ahead, until a second row confirms it.
            filter_limit: with `remember`: how many fingerprints of a key are kept before it is an error.
            known: `known(ids)` returns those of the ids that count as delivered. It is asked for causes of which
                nothing has arrived, once per id and key, as in `Gate`.
        """
        self.by, self.separator = by, separator
        self.rosters = rosters_of(by, roster)
        self.columns = Columns(by, columns, key)
        self.policy = policy_of(
            policy, after_rows=after_rows, after_seconds=after_seconds, remember=remember, held_limit=held_limit,
            when_full=when_full, max_jump=max_jump, filter_limit=filter_limit,
        ).of(by)  # fmt: skip
        if known is not None:
            check_known(by)
        self.known = known
        self.keys: dict[Key, Rule] = {}
        self._room = Room()
        self._held: dict[Key, dict[int, Fields]] = {}
        self._wanted: dict[Key, dict[str, None]] = {}  # ids to ask for
        self._asked: dict[Key, set[str]] = {}  # ids that `known` did not name
        self._left: list[Out] = []  # rows that left in a call of which `known` raised

    def push(self, row: Fields) -> list[Out]:
        """Take the next row; return the rows that leave now, in order.

        Args:
            row: a mapping with the columns that the orderer was made for; other columns are kept.
        """
        out = self._take(row)
        return out if self.known is None else self._after_asking(out, self.known)

    def _take(self, row: Fields) -> list[Out]:
        """Take a row; return the rows that leave, and note the causes to ask for."""
        key = self._key(row)
        names, rule = self.columns, self._rule(key)
        message = row.get(names.message)
        read = names.refuse(key) or rule.reading.read(
            message, row.get(names.sender), row.get(names.destination), row.get(names.cause)
        )
        held = self._held[key]
        held[rule.rows + 1] = row
        out = [_joined(held.pop(o.ticket), o) for o in rule.push(read, message, seconds(row.get(names.time)))]
        if self.known is not None and rule.rows in held:
            asked = self._asked.setdefault(key, set())
            missed = [name for name in rule.unarrived(rule.rows) if name not in asked]
            self._wanted.setdefault(key, {}).update(dict.fromkeys(missed))
        return out

    def _after_asking(self, out: list[Out], known: Callable[[list[str]], Iterable[str]]) -> list[Out]:
        """Ask for causes of which nothing has arrived; return what leaves.

        If `known` raises, the ids are asked for and `out` is returned at the next call.
        """
        self._left += out
        for key in list(self._wanted):
            rule, held, asked, wanted = self.keys[key], self._held[key], self._asked[key], self._wanted[key]
            while wanted:
                ids = list(islice(wanted, ASK_AT_ONCE))
                there = known_texts(known(ids))
                asked |= set(ids) - there
                for name in ids:
                    del wanted[name]
                met = rule.met_elsewhere([name for name in ids if name in there])
                self._left += [_joined(held.pop(o.ticket), o) for o in met]
            del self._wanted[key]
        left, self._left = self._left, []
        return left

    def push_all(self, rows: Sequence[Fields]) -> list[Out]:
        """Take the next rows; return those that leave, as `push` of each would. Stamps are read together.

        If `known` raises, all rows were taken: the next call, perhaps without rows, asks again and returns what leaves.

        Args:
            rows: mappings in the order of arrival.
        """
        if self.by != "stamp":
            for row in rows:
                _check_row(row)
            if self.known is None:
                return [each for row in rows for each in self._take(row)]
            return self._asking(rows, self.known)
        out: list[Out] = []
        start = 0
        for stop, key in self._runs(rows):
            out += self._stamped(key, rows[start:stop])
            start = stop
        return out

    def _asking(self, rows: Sequence[Fields], known: Callable[[list[str]], Iterable[str]]) -> list[Out]:
        """Take rows, and ask behind each one."""
        out: list[Out] = []
        left = iter(rows)
        try:
            for row in left:
                out += self._after_asking(self._take(row), known)
            return out + self._after_asking([], known)
        except BaseException:
            self._left = out + self._left
            for row in left:
                self._left += self._take(row)
            raise

    def _stamped(self, key: Key, rows: Sequence[Fields]) -> list[Out]:
        """Take the next rows of one key, with their stamps read together."""
        names, rule = self.columns, self._rule(key)
        held, refused, first = self._held[key], names.refuse(key), rule.rows + 1
        sender, destination, cause = (
            [row.get(name) for row in rows] for name in (names.sender, names.destination, names.cause)
        )
        if refused is not None:
            cause = [None] * len(rows)
        coded = read_together(rule.reading, sender, destination, cause)
        times = array("d", [_seconds(row.get(names.time)) for row in rows])
        outcomes = Outcomes(max(len(rows), 4), coded.lexicon)
        held.update(zip(range(first, first + len(rows)), rows, strict=True))
        rule.take(coded, 0, len(rows), times, outcomes, 0, refused)
        return [_joined(held.pop(o.ticket), o) for o in outcomes.listed()]

    def _key(self, row: Fields) -> Key:
        _check_row(row)
        return tuple([row.get(name) for name in self.columns.key])

    def _runs(self, rows: Sequence[Fields]) -> Iterator[tuple[int, Key]]:
        """Yield where each run of rows of one key ends, and the key."""
        for row in rows:
            if type(row) is not dict:  # the usual row is known by one comparison
                _check_row(row)
        columns = [[row.get(name) for row in rows] for name in self.columns.key]
        keys: list[Key] = list(zip(*columns, strict=True)) if columns else [()] * len(rows)
        last: Key | None = None
        for place, key in enumerate(keys):
            if last is not None and key != last:
                yield place, last
            last = key
        if last is not None:
            yield len(rows), last

    def deliver(self, rows: Iterable[Fields]) -> Iterator[Out]:
        """Pass rows through in causal order; at the end, rows that still wait come as `blocked`.

        Args:
            rows: mappings in the order of arrival.
        """
        for row in rows:
            yield from self.push(row)
        yield from self.finish()

    def give_up(self, cause: str | None = None, key: Iterable[Field] | None = None) -> list[Out]:
        """Give up a cause and return the rows that leave now; `thence.spark.give_up` does so for a running stream.

        Args:
            cause: the blocker that `waiting` names; without it, everything that the key holds is released.
            key: the values of the key columns; every key if not given.
        """
        check_given(cause, key)
        out = []
        for each in list(self.keys) if key is None else [tuple(key)]:
            if each not in self.keys:
                continue  # nothing of this key has arrived, so nothing waits
            rule, held = self.keys[each], self._held[each]
            left = rule.flush(BY_HAND) if cause is None else rule.give_up(cause, BY_HAND)
            out += [_joined(held.pop(o.ticket), o) for o in left]
        return out

    def finish(self) -> list[Out]:
        """Return what still waits as `blocked`, and forget it: the input has ended."""
        out, self._left = self._left, []
        for key, rule in self.keys.items():
            held = self._held[key]
            out += [_joined(held.pop(outcome.ticket), outcome) for outcome in rule.finish()]
            rule.clear()
        self._wanted.clear()
        return out

    def waiting(self) -> list[Out]:
        """Explain every held row: key, message, missing causes, root blocker, how long."""
        out = []
        for key, rule in self.keys.items():
            for waiting in rule.pending():
                columns = waiting._asdict() | {"missing": list(waiting.missing)}
                message = self._held[key][waiting.ticket].get(self.columns.message)
                row = dict(zip(self.columns.key, key, strict=True))
                row["message"] = None if message is None else str(message)
                out.append(row | {name: columns[name] for name in WAITING_COLUMNS})
        return out

    def held(self) -> dict[Key, list[Fields]]:
        """Return the rows that wait, by key, in arrival order."""
        return {key: list(rows.values()) for key, rows in self._held.items() if rows}

    def snapshot(self, encode: Callable[[Fields], bytes] | None = None) -> bytes:
        """Return the whole state as bytes, for `restore`.

        Args:
            encode: writes a held row; by default as JSON, in which bytes are allowed.
        """
        if self._left:
            raise MisuseError(
                "known raised, and rows that left were not returned yet; call push_all([]) before snapshot"
            )
        write = encode or _to_json
        try:
            texts = [json.dumps(key) for key in self.keys]
        except TypeError as error:
            raise MisuseError(f"a key cannot be kept: {error}; texts and numbers are accepted") from None
        blobs = []
        for key, rule in self.keys.items():
            rows = [write(self._held[key][ticket]) for ticket in rule.tickets()]
            extra = pack({}, {"length": ("q", ints(map(len, rows))), "rows": ("b", b"".join(rows))})
            blobs.append(encode_state(state_of(rule), extra))
        header = {"by": self.by, "key": list(self.columns.key)}
        lengths = ints(map(len, blobs))
        return pack(header, {"keys": ("s", Texts.of(texts)), "length": ("q", lengths), "blobs": ("b", b"".join(blobs))})

    def restore(self, data: bytes, decode: Callable[[bytes], Fields] | None = None) -> Orderer:
        """Take over the state that `snapshot` returned, and return this orderer.

        Args:
            data: what `snapshot` of an orderer with the same parameters returned.
            decode: reads a held row that `encode` wrote; by default from JSON.
        """
        read = decode or from_json
        header, columns = unpack(data)
        if header.get("by") != self.by or header.get("key") != list(self.columns.key):
            raise MisuseError(f"snapshot of by={header.get('by')!r}, key={header.get('key')}; this is by={self.by!r}")
        self.keys, self._held = {}, {}
        self._wanted, self._asked, self._left = {}, {}, []
        for text, span in zip(
            columns["keys"].tolist() if "keys" in columns else (), spans(columns.get("length", ())), strict=True
        ):
            key: Key = tuple(json.loads(text))
            state, extra = decode_state(columns["blobs"][span])
            reading = Reading(self.by, self.rosters, separator=self.separator)
            rule = resumed(state, reading, self.policy, self.columns.where(key), self._room)
            _, rows = unpack(extra)
            parts = spans(rows.get("length", ()))
            self.keys[key] = rule
            self._held[key] = {t: read(rows["rows"][part]) for t, part in zip(rule.tickets(), parts, strict=True)}
        return self

    def _rule(self, key: Key) -> Rule:
        rule = self.keys.get(key)
        if rule is None:
            reading = Reading(self.by, self.rosters, separator=self.separator)
            rule = self.keys[key] = Rule(reading, self.policy, self.columns.where(key), self._room)
            self._held[key] = {}
        return rule


def check_given(cause: str | None, key: Iterable[Field] | None) -> None:
    """Refuse to give up nothing in particular, or a key that is one text instead of a value for each key column."""
    if cause is None and key is None:
        raise MisuseError("give_up takes a cause that will not come, a key to release, or both")
    if isinstance(key, str):
        raise MisuseError(f"key is {key!r}; one value for each key column is accepted, as in key=({key!r},)")


def _check_row(row: object) -> None:
    if not isinstance(row, Mapping):
        raise MisuseError(f"a row is a mapping of columns to values; {row!r:.60} is a {type(row).__name__}")


def _seconds(time: Field) -> float:
    """Return an event time for a batch; NaN for none."""
    if type(time) is float and isfinite(time):  # the usual one
        return time
    found = seconds(time)
    return nan if found is None else found


def _joined(row: Fields, outcome: Outcome) -> Out:
    return {**row, **outcome.columns()}


def _to_json(row: Fields) -> bytes:
    def other(value: Field) -> Json:
        if isinstance(value, bytes):
            return {"$bytes": base64.b64encode(value).decode()}
        raise MisuseError(f"a held row has a {type(value).__name__}, which JSON cannot hold; pass encode= and decode=")

    return json.dumps(dict(row), default=other).encode()


def from_json(data: bytes) -> Fields:
    """Read a held row as `snapshot` writes it by itself."""

    def hook(value: Out) -> Field:
        return base64.b64decode(value["$bytes"]) if value.keys() == {"$bytes"} else value

    row: Fields = json.loads(data, object_hook=hook)
    return row
