"""What a probe returns, and how it says who it is."""

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

import polars as pl

from profilers import clock
from profilers.clusters import Cluster
from profilers.clusters.node_types import declared_usd_per_hour
from profilers.steady.gauge import GAUGE
from warehouse.records import Purpose, Run, Scenario

Setting = str | int | float | bool | None


@dataclass(frozen=True)
class RunContext:
    """Why a probe runs: for which study, in which round, and whether predictors may see it.

    Raw artefacts are written to `scratch`; whoever made that folder lands and removes them.
    """

    study: str
    repeat: int
    purpose: Purpose
    scratch: Path


@dataclass(frozen=True)
class ProbeResult:
    """A run, its scenario, one frame per raw table (without run_id) and raw artefacts by name."""

    run: Run
    scenario: Scenario | None
    tables: Mapping[str, pl.DataFrame]
    artefacts: Mapping[str, Path] = field(default_factory=dict)


def finished_run(
    probe: str,
    cluster: Cluster,
    scenario: Scenario | None,
    context: RunContext,
    started_at: datetime,
    settings: Mapping[str, Setting],
    error: str | None = None,
) -> Run:
    """Describe a run that ends now; with an `error` it is a failed one.

    Its config has the settings, facts of the cluster, how fast the host was (`gauge_us`, and
    `host_gflops` where nodes have steady cores), and what its nodes cost an hour (`usd_per_hour`):
    as they are rented, else where their types declare it; query run_costs has what a provider asked
    for others. The cost of a run on rented nodes is that of its own seconds; what they cost before
    and after is in query bill.

    Raises:
        ProbeFailed: the cores of a run that did not fail were not steady.
    """
    gauge_us = GAUGE.mean_us(started_at) if cluster.here else None
    found = {"gauge_us": None if gauge_us is None else round(gauge_us, 1)}
    host_gflops = cluster.host_gflops(started_at) if error is None else None
    groups = cluster.groups if scenario is None else scenario.nodes
    rented_usd, ended_at = cluster.usd_per_hour(), clock.now()
    found["usd_per_hour"] = declared_usd_per_hour(groups) if rented_usd is None else rented_usd
    hours = (ended_at - started_at).total_seconds() / 3600
    if host_gflops is not None:
        found["host_gflops"] = round(host_gflops, 2)
    return Run(
        run_id=f"{started_at:%Y%m%dT%H%M%S}-{probe}-{uuid.uuid4().hex[:8]}",
        probe=probe,
        purpose=context.purpose,
        study=context.study,
        repeat=context.repeat,
        scenario_id=scenario.scenario_id if scenario else None,
        backend=cluster.backend,
        status="failed" if error else "ok",
        error=error,
        started_at=started_at,
        ended_at=ended_at,
        host_id=cluster.host_id(),
        host=dict(cluster.host()),
        software=dict(cluster.software()),
        config={**settings, **cluster.facts(), "link_mbps": cluster.link_mbps, **found},
        cost_usd=None if rented_usd is None else rented_usd * hours,
    )
