"""Delays of copies in the network: a small grammar of delay policies.

    SPEC     = POLICY [";" LINK "=" POLICY]...          later links win over earlier ones
    LINK     = SOURCE ">" DESTINATION                   process names, or * for any
    POLICY   = "constant:" T                            always T seconds
             | "uniform:" LOW "," HIGH                  evenly between
             | "exponential:" MEAN
             | "pareto:" MEAN ["," SHAPE]               heavy-tailed; SHAPE > 1, 1.5 if not given
             | "lognormal:" MEDIAN ["," SIGMA]          heavy-tailed; SIGMA 1 if not given
             | "adversarial" [":" MEAN]                 0.05 if not given; see below
             | "matrix:" SHAPE ":" ROW ("/" ROW)...     SHAPE constant or exponential; ROW = T ("," T)..., row = source

Adversarial: while a copy is under way on a link, every later one on that link arrives just before it (last in, first
out); a copy that finds the link empty is either very quick or very slow, so that a chain of quick copies overtakes it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from random import Random

from thence.core.model.roster import Roster
from thence.errors import MisuseError

Travel = Callable[[float, int, int], float]
"""(now, source, destination) -> time of arrival"""

POLICIES = ("constant", "uniform", "exponential", "pareto", "lognormal", "adversarial", "matrix")
DEFAULT_MEAN = 0.05
LONGEST = 1e9
"""seconds; sums of what is drawn from these stay finite"""
LARGEST_SIGMA = 10.0


def compile_delay(spec: str, roster: Roster, rng: Random) -> Travel:
    """Return a function from a copy's send time to its arrival time; raise an error for an invalid text."""
    first, *rest = (part.strip() for part in spec.split(";"))
    common = _policy(first, roster, rng)
    if not rest:
        return common
    links: dict[tuple[int, int], Travel] = {}
    for part in rest:
        link, found, policy = part.partition("=")
        if not found:
            raise MisuseError(f"delay {part!r} names no link; a>b=constant:0.1 is accepted, * for any process")
        travel = _policy(policy.strip(), roster, rng)
        links.update(dict.fromkeys(_links(link.strip(), roster), travel))

    def by_link(now: float, source: int, destination: int) -> float:
        return links.get((source, destination), common)(now, source, destination)

    return by_link


def _links(text: str, roster: Roster) -> list[tuple[int, int]]:
    source, found, destination = text.partition(">")
    if not found:
        raise MisuseError(f"link {text!r} is not SOURCE>DESTINATION; a>b, a>* and *>b are accepted")

    def ends(name: str) -> list[int]:
        return list(range(len(roster))) if name.strip() == "*" else [roster.position(name.strip())]

    return [(s, d) for s in ends(source) for d in ends(destination)]


def _policy(text: str, roster: Roster, rng: Random) -> Travel:
    name, _, arguments = text.partition(":")
    if name == "matrix":
        return _matrix(arguments, roster, rng)
    if name not in POLICIES:
        raise MisuseError(f"no delay policy {name!r}; there are {', '.join(POLICIES)}, as in exponential:0.05")
    numbers = _numbers(arguments, text)
    makers: dict[str, Callable[[list[float], Random], Travel]] = {
        "constant": _constant,
        "uniform": _uniform,
        "exponential": _exponential,
        "pareto": _pareto,
        "lognormal": _lognormal,
        "adversarial": _adversarial,
    }
    least, most = {"uniform": (2, 2), "pareto": (1, 2), "lognormal": (1, 2), "adversarial": (0, 1)}.get(name, (1, 1))
    if not least <= len(numbers) <= most:
        takes = str(least) if least == most else f"{least} to {most}"
        raise MisuseError(f"delay {text!r} gives {len(numbers)} numbers; {name} takes {takes}")
    return makers[name](numbers, rng)


def _numbers(text: str, whole: str) -> list[float]:
    try:
        numbers = [float(part) for part in text.split(",")] if text else []
    except ValueError:
        raise MisuseError(f"delay {whole!r} holds something that is not a number; seconds are accepted") from None
    for number in numbers:
        if not 0 <= number <= LONGEST:
            raise MisuseError(f"delay {whole!r} holds {number}; numbers from 0 to {LONGEST:g} are accepted")
    return numbers


def _constant(numbers: list[float], rng: Random) -> Travel:
    (seconds,) = numbers
    return lambda now, source, destination: now + seconds


def _uniform(numbers: list[float], rng: Random) -> Travel:
    low, high = numbers
    if low > high:
        raise MisuseError(f"uniform delay from {low} to {high}; the first may not be larger")
    span, random = high - low, rng.random
    return lambda now, source, destination: now + low + span * random()


def _exponential(numbers: list[float], rng: Random) -> Travel:
    mean, random, log = numbers[0], rng.random, math.log
    return lambda now, source, destination: now - mean * log(1.0 - random())


def _pareto(numbers: list[float], rng: Random) -> Travel:
    mean, shape = numbers[0], numbers[1] if len(numbers) > 1 else 1.5
    if shape <= 1:
        raise MisuseError(f"pareto shape {shape}; above 1 is accepted, or there is no mean")
    least, power, random = mean * (shape - 1) / shape, -1.0 / shape, rng.random
    return lambda now, source, destination: now + least * (1.0 - random()) ** power


def _lognormal(numbers: list[float], rng: Random) -> Travel:
    median, sigma = numbers[0], numbers[1] if len(numbers) > 1 else 1.0
    if sigma > LARGEST_SIGMA:
        raise MisuseError(f"lognormal sigma {sigma}; from 0 to {LARGEST_SIGMA:g} is accepted")
    normal, exp = rng.gauss, math.exp
    return lambda now, source, destination: now + median * exp(normal(0.0, sigma))


def _adversarial(numbers: list[float], rng: Random) -> Travel:
    mean = numbers[0] if numbers else DEFAULT_MEAN
    due: dict[tuple[int, int], float] = {}
    random, gap = rng.random, mean * 1e-6

    def travel(now: float, source: int, destination: int) -> float:
        before = due.get((source, destination), 0.0) - gap
        if before <= now:
            # a mean of `mean` over both: half of them take up to mean / 10, the others up to 3.9 times the mean
            before = now + random() * mean * (0.1 if random() < 0.5 else 3.9)
        due[source, destination] = before
        return before

    return travel


def _matrix(text: str, roster: Roster, rng: Random) -> Travel:
    shape, _, body = text.partition(":")
    if shape not in ("constant", "exponential"):
        raise MisuseError(f"matrix of shape {shape!r}; matrix:constant:... and matrix:exponential:... are accepted")
    rows = [_numbers(row, f"matrix:{text}") for row in body.split("/")]
    size = len(roster)
    if len(rows) != size or any(len(row) != size for row in rows):
        widths = sorted({len(row) for row in rows})
        raise MisuseError(f"delay matrix of {len(rows)} rows and {widths} columns; {size} of each are accepted")
    if shape == "constant":
        return lambda now, source, destination: now + rows[source][destination]
    random, log = rng.random, math.log
    return lambda now, source, destination: now - rows[source][destination] * log(1.0 - random())
