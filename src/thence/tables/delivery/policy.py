"""Policies for missing causes, chosen by the caller and driven by rows in the order of arrival.

Invariant: `wait` holds forever. `release` lets a row go once `after_rows` later rows of its key have arrived, or once
the event time of its key has moved on by `after_seconds` since it came; the causes it goes without are named. `fail`
raises at the same points instead, and, where the input ends, for rows that are still held. Nothing here reads a clock:
the same rows give the same outcomes in a batch, in a stream and in plain Python.

*Event time* never goes back. Without `max_jump` it is the greatest time so far. With it, a time more than `max_jump`
ahead is ignored until the next row that has a time is too far ahead as well: then the lesser of the two is taken,
so that one outlier moves nothing and a quiet weekend is passed. The first time of a key is confirmed in the same way. A
row that came before any time was known counts from the first one.

`held_limit` bounds the held rows of a key; when one more must be held, `when_full` either fails or releases the oldest.
`remember` bounds how many delivered ids of explicit causes are kept as they are; of older ones a fingerprint of 8 bytes
is kept, without bound or, with `filter_limit`, up to that many, and then it is an error.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypedDict, Unpack

from thence.errors import Argument, MisuseError

PolicyName = Literal["wait", "release", "fail"]
WhenFull = Literal["fail", "release"]


MOST = 10**18
"""The largest limit: the compiled rule counts in 64 bits, and adds limits to counts."""


class PolicyLimits(TypedDict, total=False):
    """The fields of a Policy beside its name, as keywords; None: as a Policy has it."""

    after_rows: int | None
    after_seconds: float | None
    remember: int | None
    held_limit: int | None
    when_full: WhenFull | None
    max_jump: float | None
    filter_limit: int | None


@dataclass(frozen=True, slots=True)
class Policy:
    """The policy for missing causes, and the limits on what is kept for a key.

    `release` lets a row go without its missing causes, which are named in its column `missing`; `fail` raises
    instead."""

    name: PolicyName = "wait"
    """`wait` (forever), `release` or `fail` when one of the next two limits is reached"""
    after_rows: int | None = None
    """how many later rows of the key may arrive while a row is held"""
    after_seconds: float | None = None
    """how far the event time of the key may advance while a row is held"""
    remember: int | None = None
    """how many delivered ids of a key are kept in full; of older ones only a fingerprint of 8 bytes is kept"""
    held_limit: int | None = None
    """how many rows of a key may be held at a time"""
    when_full: WhenFull = "fail"
    """what happens beyond `held_limit`: `fail`, or `release` the oldest row"""
    max_jump: float | None = None
    """ignore a row's time if it is more than this many seconds ahead, until a second row confirms it"""
    filter_limit: int | None = None
    """with `remember`: how many fingerprints of a key are kept before it is an error"""

    def __post_init__(self) -> None:
        """Reject contradictory fields."""
        if self.name not in ("wait", "release", "fail"):
            raise MisuseError(f"no policy {self.name!r}; there are wait, release and fail")
        if self.when_full not in ("fail", "release"):
            raise MisuseError(Argument("when_full"), f" is {self.when_full!r}; fail or release is accepted")
        limits = (self.after_rows, self.after_seconds)
        if self.name == "wait" and limits != (None, None):
            raise MisuseError(
                Argument("after_rows"), " and ", Argument("after_seconds"), " go with ", Argument("policy", "release"),
                " or ", Argument("policy", "fail"), ", not with 'wait'",
            )  # fmt: skip
        if self.name == "release" and limits == (None, None):
            raise MisuseError(
                Argument("policy", "release"), " needs ", Argument("after_rows"), " or ", Argument("after_seconds")
            )
        for name in ("after_rows", "remember", "held_limit", "filter_limit"):
            value = getattr(self, name)
            if value is not None and (not isinstance(value, int) or isinstance(value, bool) or not 0 < value <= MOST):
                raise MisuseError(Argument(name), f" is {value!r}; a whole number from 1 is accepted, up to 10**18")
        for name in ("after_seconds", "max_jump"):
            value = getattr(self, name)
            if value is not None and not value >= 0:
                raise MisuseError(Argument(name), f" is {value!r}; seconds from 0 are accepted")
        if self.filter_limit is not None and self.remember is None:
            raise MisuseError(
                Argument("filter_limit"),
                " goes with ",
                Argument("remember"),
                ", because it bounds the ids that were forgotten",
            )

    def of(self, by: str) -> Policy:
        """Return the policy for arrivals of one kind; raise `MisuseError` for a limit that has no meaning there.

        Args:
            by: `depends_on`, `clock` or `stamp`.
        """
        if self.remember is not None and by != "depends_on":
            raise MisuseError(
                Argument("remember"), " goes with ", Argument("by", "depends_on"), "; ", Argument("by", by),
                " keeps one number of each sender, no ids",
            )  # fmt: skip
        return self

    @property
    def releases(self) -> bool:
        """Whether the policy ever releases a row without a cause."""
        return self.name == "release" or self.releases_when_full

    @property
    def releases_when_full(self) -> bool:
        """Whether the limit on held rows releases."""
        return self.held_limit is not None and self.when_full == "release"

    def needs_an_end(self) -> bool:
        """Whether the policy acts only at the end of the input: a stream would never fail."""
        return self.name == "fail" and self.after_rows is None and self.after_seconds is None

    # -- why a row is let go, as sentences -------------------------------------------------------------------------

    def after_so_many_rows(self) -> str:
        """Return the reason: enough rows have come."""
        return f"after {self.after_rows} later rows"

    def after_so_long(self) -> str:
        """Return the reason: enough event time has passed."""
        return f"after {self.after_seconds:g} s of event time"

    def too_many_forgotten(self) -> str:
        """Return the reason: too many ids were forgotten."""
        return (
            f"more than {self.filter_limit} ids beyond the last {self.remember} were delivered: filter_limit is "
            "reached; a larger one, or none, is accepted"
        )

    def not_believed(self, ahead: float) -> str:
        """Return the note of a row whose time was ignored because of `max_jump`.

        Args:
            ahead: how many seconds its time is ahead of the key's.
        """
        return f"its time is {ahead:g} s ahead of the key's, more than {self.max_jump:g}: not counted"

    def too_many(self) -> str:
        """Return the reason: too many rows were held."""
        return f"since more than {self.held_limit} rows were held"


def policy_of(policy: PolicyName | Policy, **limits: Unpack[PolicyLimits]) -> Policy:
    """Return the policy that a caller named, with its limits, or the Policy that the caller made.

    A Policy has its own limits: a limit given beside it is rejected, since one of the two would be ignored.
    """
    given = {name: value for name, value in limits.items() if value is not None}
    if not isinstance(policy, Policy):
        return Policy(policy, **given)  # type: ignore[arg-type]
    for name, value in given.items():
        raise MisuseError(
            f"{name}={value!r} was given beside policy={policy!r}, which has {name}={getattr(policy, name)!r}; "
            f"give it once: Policy(..., {name}={value!r})"
        )
    return policy
