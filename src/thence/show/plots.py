"""Result rows as pictures: PNG and SVG through matplotlib, which is loaded here and not before.

*Invariant.* The same rows give the same SVG, to the byte: no dates and no random ids. A figure is made from rows
alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from thence.core.model.plain import Row
from thence.errors import MisuseError
from thence.tables.result_table import Cell

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from thence.lab.simulator.confidence import Estimate

At = TypeVar("At", bound=float)
"""A place on the axis that a curve is drawn over."""
COLORS: Sequence[str] = (
    "#1f6f8b",
    "#d1495b",
    "#66a182",
    "#edae49",
    "#6d597a",
    "#2e4057",
    "#8d96a3",
    "#b56576",
    "#355070",
)
GREY = "#b8bec6"
SUFFIXES = (".png", ".svg")
COLORED = ("ks", "rst", "ci-dc", "prs", "ses", "ech", "vector clock")
"""those that have the same color in every picture"""
GAPS = ((8, 6), (2, 4), (9, 3, 2, 3), (14, 3), (4, 7), (2, 3))
"""lengths of dashes and of the gaps between them, in points, for any width"""
MARKERS = ("o", "s", "^", "D", "v", "x", "+")
WIDEST, NARROWEST = 3.6, 1.0


def figure(width: float = 8.0, height: float = 4.5, *, columns: int = 1) -> tuple[Figure, list[Axes]]:
    """Return an empty figure with panels side by side, drawn without any window."""
    from matplotlib import rc_context
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with rc_context({"font.size": 9.0}):
        made = Figure(figsize=(width, height), layout="constrained")
        FigureCanvasAgg(made)
        panels = [made.add_subplot(1, columns, number) for number in range(1, columns + 1)]
    for panel in panels:
        panel.spines[["top", "right"]].set_visible(False)
    return made, panels


def save(made: Figure, path: Path | str) -> list[Path]:
    """Write a figure as the name says, .png or .svg; a name that says neither gives both."""
    target = Path(path)
    if target.suffix and target.suffix not in SUFFIXES:
        raise MisuseError(f"{target} ends in neither .png nor .svg; leave the ending out to get both")
    files = [target] if target.suffix else [target.with_suffix(suffix) for suffix in SUFFIXES]
    for file in files:
        if file.suffix == ".svg":
            file.write_bytes(svg(made))
        else:
            made.savefig(file, dpi=150, metadata={"Software": "thence"})
    return files


def svg(made: Figure) -> bytes:
    """Return a figure as SVG."""
    from matplotlib import rc_context

    out = BytesIO()
    with rc_context({"svg.hashsalt": "thence", "svg.fonttype": "none"}):
        made.savefig(out, format="svg", metadata={"Date": None, "Creator": "thence"})
    return out.getvalue()


def cost_plot(rows: Sequence[Row], *, recommended: str | None = None, able: Sequence[str] = ()) -> Figure:
    """Show what each protocol would cost: bytes for each message beside the share of copies that would wait.

    `able` lists the protocols that can be recommended; the others are grey.
    """
    shown = [row for row in rows if row["warm_bytes_per_message"] is not None]
    shown.sort(key=lambda row: (row["warm_bytes_per_message"], row["protocol"]), reverse=True)
    made, (sizes, waits) = figure(9.0, 1.2 + 0.28 * max(4, len(shown)), columns=2)
    names = [row["protocol"] for row in shown]
    colors = [COLORS[1] if name == recommended else COLORS[0] if name in able else GREY for name in names]
    sizes.barh(names, [row["warm_bytes_per_message"] for row in shown], color=colors)
    sizes.set_xlabel("bytes a message once warm, over all copies and protocol messages")
    waits.barh(names, [100.0 * (row["held_share"] or 0.0) for row in shown], color=colors)
    waits.set_xlabel("copies that wait, %")
    waits.set_yticklabels([])
    color = GREY if recommended is None else COLORS[1]
    sizes.set_title(f"recommended: {recommended or 'nothing'}", loc="left", color=color, fontsize=10)
    waits.set_title("grey: needs not met, or never recommended", loc="left", color="#6b7280", fontsize=9)
    return made


def sweep_plot(
    rows: Sequence[Row], *, x: str = "processes", y: str = "bytes_per_message", by: str = "protocol"
) -> Figure:
    """Plot a measure over one axis of a grid: one line for each value of `by`, with error bars for intervals.

    Settings that differ only in other keys are averaged into one point.
    """
    made, (panel,) = figure()
    lines: dict[Cell, dict[Cell, list[Row]]] = {}
    for row in rows:
        if row[y] is not None:
            lines.setdefault(row[by], {}).setdefault(row[x], []).append(row)
    for number, name in enumerate(sorted(lines, key=str)):
        points = [(at, *_point(some, y)) for at, some in sorted(lines[name].items(), key=lambda item: _key(item[0]))]
        places, means, halves = zip(*points, strict=True)
        panel.errorbar(places, means, yerr=halves, label=str(name), **_look(str(name), number, len(lines)))
    panel.set_xlabel(x)
    panel.set_ylabel(y)
    if lines:
        panel.legend(title=by, frameon=False)
    return made


def curves(panel: Axes, lines: Mapping[str, Mapping[At, Estimate]], *, x: str, y: str, log: bool = False) -> None:
    """Draw a line for each name, with error bars where there is an interval; `log` makes both axes logarithmic."""
    for number, (name, points) in enumerate(lines.items()):
        means, halves = zip(*((point.mean, point.half or 0.0) for point in points.values()), strict=True)
        panel.errorbar(list(points), means, yerr=halves, label=name, **_look(name, number, len(lines)))
    if log:
        from matplotlib.ticker import FuncFormatter, LogFormatter, NullFormatter

        panel.set_xscale("log")
        panel.set_yscale("log")
        ticks = sorted({at for points in lines.values() for at in points})
        panel.set_xticks(ticks, [f"{at:g}" for at in ticks])
        panel.xaxis.set_minor_formatter(NullFormatter())
        panel.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        panel.yaxis.set_minor_formatter(LogFormatter())  # otherwise an axis shorter than a decade has no labels
    panel.set_xlabel(x)
    panel.set_ylabel(y)


def _look(name: str, number: int, of: int) -> dict[str, Any]:
    """Return the style of one of several lines, chosen so that overlapping lines all stay visible.

    Each is narrower than those drawn before and has its own hollow marker; all but the first have their own dashes.
    """
    width = WIDEST - (WIDEST - NARROWEST) * number / max(1, of - 1)
    gaps = tuple(points / width for points in GAPS[(number - 1) % len(GAPS)])
    return {
        "color": COLORS[(COLORED.index(name) if name in COLORED else number) % len(COLORS)],
        "linewidth": width, "linestyle": (0, gaps) if number else "-", "elinewidth": 1.0, "capsize": 2,
        "marker": MARKERS[number % len(MARKERS)], "markersize": 5, "markerfacecolor": "none",
    }  # fmt: skip


def shares(panel: Axes, counts: Mapping[str, Mapping[int, int]], *, x: str) -> None:
    """Draw histograms side by side: for each name, how often each whole number was counted."""
    from matplotlib.ticker import MaxNLocator

    width = 0.8 / max(1, len(counts))
    for number, (name, seen) in enumerate(counts.items()):
        whole = max(1, sum(seen.values()))
        places = [size + (number - (len(counts) - 1) / 2) * width for size in seen]
        color = COLORS[number % len(COLORS)]
        panel.bar(places, [100.0 * times / whole for times in seen.values()], width, label=name, color=color)
    panel.xaxis.set_major_locator(MaxNLocator(integer=True))
    panel.set_xlabel(x)
    panel.set_ylabel("share, %")


def legend(made: Figure, panel: Axes, title: str = "") -> None:
    """Put the names of a panel's lines or bars below the whole figure, where they cover nothing."""
    handles, names = panel.get_legend_handles_labels()
    columns = min(len(names), 4) if sum(map(len, names)) > 60 else len(names)
    made.legend(
        handles, names, loc="outside lower center", ncols=columns, frameon=False, title=title or None, fontsize=9
    )


def _key(value: Cell) -> tuple[bool, float, str]:
    """Return the place of a value on an axis: numbers before texts."""
    return (True, 0.0, value) if isinstance(value, str) else (False, value or 0.0, "")


def _point(rows: Sequence[Row], y: str) -> tuple[float, float]:
    mean = sum(row[y] for row in rows) / len(rows)
    half = sum((row.get(f"{y}_ci95") or 0.0) ** 2 for row in rows) ** 0.5 / len(rows)
    return mean, half
