"""Curves of a study that differ in one thing, beside each other."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, get_args

import polars as pl

from studies.curve import Curve
from studies.study import Study
from warehouse.records import on_images

Varied = Literal["batch_size", "link_mbps", "order", "servers", "placement"]
_NAMES: Mapping[Varied, str] = {
    "batch_size": "batch of {}",
    "link_mbps": "{:g} Mb/s",
    "order": "order {}",
    "servers": "{} server(s)",
    "placement": "placed {}",
}
_NOT_COMPARED = ("workers", "profiled_at_mbps")


@dataclass(frozen=True)
class Comparison:
    """Curves that differ in `varied` alone, and what they share, in short.

    `curves` have workers, predicted and measured (examples/s of all workers), by label.
    """

    varied: Varied
    shared: str
    curves: Mapping[str, pl.DataFrame]


def comparisons(study: Study, rows: pl.DataFrame) -> tuple[Comparison, ...]:
    """Return the groups of curves that differ in one thing, thing by thing.

    Throughputs are compared: steps of curves whose metric is a time are of all workers together.

    Args:
        study: whose curves they are.
        rows: as `forecasting.results.outcome` returns them.
    """
    if study.metric.name != "throughput_steps_per_s":
        return ()
    things: tuple[Varied, ...] = get_args(Varied)
    return tuple(
        Comparison(
            varied, shared_title(study.curves[group[0]], varied), curves(study, rows, group, varied)
        )
        for varied in things
        for group in alike(study, varied)
    )


def alike(study: Study, varied: Varied) -> list[list[int]]:
    """Return the places of curves that differ in `varied` alone, whatever their workers.

    Groups of one are left out. Where a curve is profiled is no difference.
    """
    groups: dict[str, list[int]] = {}
    for place, curve in enumerate(study.curves):
        groups.setdefault(_but(curve, varied), []).append(place)
    return [group for group in groups.values() if len(group) > 1]


def curves(
    study: Study, rows: pl.DataFrame, group: list[int], varied: Varied
) -> dict[str, pl.DataFrame]:
    """Return workers, predicted and measured (examples/s) of each curve of a group, by label.

    `rows` has curve, workers, predicted and measured, in steps/s.
    """
    found = {}
    for place in sorted(group, key=lambda place: getattr(study.curves[place], varied)):
        curve = study.curves[place]
        label = _NAMES[varied].format(getattr(curve, varied))
        if varied == "link_mbps" and curve.profiled_at_mbps not in (None, curve.link_mbps):
            label += f", profiled at {curve.profiled_at_mbps:g}"
        found[label] = rows.filter(curve=place).select(
            "workers", pl.col("predicted", "measured") * curve.batch_size
        )
    return found


def shared_title(curve: Curve, varied: Varied) -> str:
    """Return what the curves of a group have in common, in short."""
    parts = {
        "batch_size": f"b{curve.batch_size}",
        "link_mbps": "" if curve.link_mbps is None else f"{curve.link_mbps:g} Mb/s",
        "order": curve.order if curve.order != "framework" else "",
        "servers": f"M={curve.servers}" if curve.servers > 1 else "",
        "placement": curve.placement if curve.placement != "round_robin" else "",
    }
    named = [text for name, text in parts.items() if text and name != varied]
    return ", ".join([on_images(curve.dnn, curve.image_size), *named])


def _but(curve: Curve, varied: Varied) -> str:
    return curve.model_dump_json(exclude={varied, *_NOT_COMPARED})
