"""A picture of what happened when to the nodes of a job: Figure 8 of Srift, of any job."""

import json
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from reports.plots import LINEAR, MEASURED, PREDICTED, WARNING, coloured, styled

_WIDTH_INCHES = 9.0
_NODE_INCHES, _PROGRESS_INCHES = 0.24, 2.6
_PROGRESS = ("training", "progress", "saved", "finished", "aborted", "stopped")


@dataclass(frozen=True)
class NodeLifetime:
    """A node, from its launch until it was lost or given back; `up_s` is None if it never was."""

    node: str
    node_type: str
    launch_s: float
    up_s: float | None
    gone_s: float
    reason: str | None


def node_lifetimes(events: pl.DataFrame) -> list[NodeLifetime]:
    """Return the nodes of a story (columns of table runtime_event), in the order of launch."""
    end_s = float(events["at_s"].to_numpy().max(initial=0.0))
    rows = events.with_row_index("row").with_columns(before_s=pl.col("at_s").shift(1))
    # A controller that comes back finds all nodes gone, since the last that was known of them.
    backs = rows.filter(event="resumed")
    nodes = []
    for launch in rows.filter(event="launch").iter_rows(named=True):
        later = rows.filter(pl.col("row") > launch["row"], node=launch["node"])
        up = later.filter(event="launched")
        gone = later.filter(pl.col("event").is_in(["lost", "released"]))
        back = backs.filter(pl.col("row") > launch["row"])
        ends = [(row["at_s"], _detail(row).get("reason")) for row in gone.iter_rows(named=True)]
        ends += [(at_s, "controller gone") for at_s in back["before_s"].to_list()]
        gone_s, reason = min(ends, key=itemgetter(0), default=(end_s, None))
        up_s = float(up["at_s"][0]) if up.height else None
        nodes.append(
            NodeLifetime(launch["node"], launch["node_type"], launch["at_s"], up_s, gone_s, reason)
        )
    return nodes


@styled
def job_plot(events: pl.DataFrame, title: str = "") -> Figure:
    """Plot iterations done, plans and the deadline over the nodes that were there.

    `events` has the columns of table runtime_event.

    Source: Srift, Figure 8.
    """
    nodes = node_lifetimes(events)
    inches = [_PROGRESS_INCHES, len(nodes) * _NODE_INCHES + 0.7]
    figure = Figure(figsize=(_WIDTH_INCHES, sum(inches)), layout="constrained")
    figure.suptitle(title, fontsize=12)
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=inches)
    _draw_progress(above, events)
    _draw_nodes(below, nodes)
    below.set_xlabel("seconds since the job began")
    below.set_xlim(left=0)
    return figure


def _draw_progress(axes: Axes, events: pl.DataFrame) -> None:
    done = events.filter(pl.col("event").is_in(_PROGRESS), pl.col("step").is_not_null())
    axes.plot(done["at_s"], done["step"], color=MEASURED, lw=2, label="iterations done")
    label: str | None = "expected by each plan"
    for row in events.filter(event="planned").iter_rows(named=True):
        plan, step = _detail(row), row["step"]
        began_s = plan["finish_s"] - plan["train_s"]
        ends = [began_s, plan["finish_s"]], [step, step + plan["iterations"]]
        axes.plot(*ends, "--", color=PREDICTED, label=label)
        _note(axes, plan["configuration"], (began_s, step), (8, 2))
        label = None
    for at_s in events.filter(event="lost")["at_s"].unique().to_list():
        axes.axvline(at_s, color=LINEAR, lw=1, ls=":")
    details = map(_detail, events.iter_rows(named=True))
    deadlines = [detail["deadline_s"] for detail in details if "deadline_s" in detail]
    if deadlines and deadlines[-1] is not None:  # as it was in the end
        axes.axvline(deadlines[-1], color=WARNING, lw=1.5, label="deadline")
    axes.set(ylabel="iterations")
    axes.set_ylim(bottom=0)
    axes.legend(loc="upper left", fontsize=8)


def _draw_nodes(axes: Axes, nodes: list[NodeLifetime]) -> None:
    types = sorted({node.node_type for node in nodes})
    colours = {name: colour for colour, name in coloured(types)}
    labels = {name: name for name in types}
    for place, node in enumerate(nodes):
        up_s = node.gone_s if node.up_s is None else node.up_s
        colour = colours[node.node_type]
        bar: dict[str, Any] = {"height": 0.7, "color": colour, "edgecolor": colour}
        axes.barh(place, up_s - node.launch_s, left=node.launch_s, alpha=0.25, hatch="///", **bar)
        label = labels.pop(node.node_type, None)
        axes.barh(place, node.gone_s - up_s, left=up_s, label=label, **bar)
        if node.reason is not None:
            axes.plot(node.gone_s, place, "x", color=WARNING, ms=8, mew=2)
            _note(axes, node.reason, (node.gone_s, place), (7, -3))
    axes.set_yticks(range(len(nodes)), labels=[node.node for node in nodes], fontsize=8)
    if nodes:
        axes.legend(loc="lower left", fontsize=8, title="launching, then up", title_fontsize=8)
    axes.set_ylim(len(nodes) - 0.4, -0.6)
    axes.grid(visible=False, axis="y")


def _note(axes: Axes, text: str, at: tuple[float, float], aside: tuple[float, float]) -> None:
    axes.annotate(text, at, xytext=aside, textcoords="offset points", fontsize=7)


def _detail(row: dict[str, Any]) -> dict[str, Any]:
    detail: dict[str, Any] = json.loads(row["detail"])
    return detail
