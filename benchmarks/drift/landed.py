"""Probes that have landed, quiet ones and those of nodes that were made slower."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import polars as pl

from benchmarks.drift.injecting import Injection, What
from fleet.readings import readings
from profilers import watch
from studies.landed import table
from warehouse.landing import landed_runs
from warehouse.records import BadInput


@dataclass(frozen=True)
class Probed:
    """A probe that landed: when it began, what was made slower, and what it says."""

    run_id: str
    node_type: str
    started_at: datetime
    injection: Injection | None
    readings: pl.DataFrame

    def value(self, metric: str) -> float:
        """Return its figure of a metric."""
        return float(self.reading(metric)["value"])

    @property
    def knows_memory(self) -> bool:
        """Whether it says how fast the host's memory was."""
        of_memory = self.readings.filter(pl.col("metric") == watch.MEMORY)
        return of_memory.height > 0 and of_memory["host"].null_count() == 0

    def reading(self, metric: str) -> dict[str, Any]:
        """Return all of `fleet.readings` about a metric."""
        return self.readings.row(by_predicate=pl.col("metric") == metric, named=True)

    def is_of(self, what: What) -> bool:
        """Return whether this was made slower."""
        return self.injection is not None and self.injection.what == what


def probed(landing: Path) -> tuple[Probed, ...]:
    """Return all probes `watch` that have landed ok in a folder, by when they began.

    Of probes from before there were bursts of copies beside the node nothing tells how fast the
    host's memory was meanwhile: their figures of memory are left out, and those of slower memory.
    """
    found = [
        Probed(
            run.run_id,
            str(run.config["worker"]),
            run.started_at,
            Injection.of(run),
            readings(
                table(landing, run, "sample").with_columns(
                    started_at=pl.lit(run.started_at), boot=pl.lit(run.host.get("boot_id", ""))
                )
            ),
        )
        for run in landed_runs(landing)
        if (run.probe, run.status) == ("watch", "ok")
    ]
    known = (_with_gauges(one) for one in found if not one.is_of("memory") or one.knows_memory)
    return tuple(sorted(known, key=lambda one: one.started_at))


def _with_gauges(probe: Probed) -> Probed:
    if probe.knows_memory:
        return probe
    return replace(probe, readings=probe.readings.filter(pl.col("metric") != watch.MEMORY))


def quiet(probes: Iterable[Probed]) -> list[Probed]:
    """Return those of nodes as they are."""
    return [one for one in probes if one.injection is None]


def injected(probes: Iterable[Probed]) -> dict[Injection, list[Probed]]:
    """Return the others by what was made slower, in order."""
    found: dict[Injection, list[Probed]] = {}
    for one, injection in _injections(probes):
        found.setdefault(injection, []).append(one)
    return {
        injection: found[injection]
        for injection in sorted(found, key=lambda each: (each.what, each.by))
    }


def of_one_type(probes: Iterable[Probed], where: Path) -> None:
    """Refuse probes of several node types, or none: they are no history of one.

    Raises:
        BadInput: naming the folder and what it holds.
    """
    types = sorted({one.node_type for one in probes})
    if len(types) != 1:
        held = ", ".join(types) or "none"
        raise BadInput(
            f"{where}: expected probes `watch` of one node type, found {held}; name a folder that "
            "`python -m benchmarks.drift collect` filled"
        )


def _injections(probes: Iterable[Probed]) -> Iterator[tuple[Probed, Injection]]:
    return ((one, one.injection) for one in probes if one.injection is not None)
