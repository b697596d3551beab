"""Rounds of asynchronous SGD: what captured packets show, and timelines of simulated steps."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from models.async_sgd import http2, overhead, streams, timeline
from models.async_sgd.http2 import kept_order
from models.async_sgd.overhead import Overhead, transfers
from models.async_sgd.predictor import AsyncSGD
from models.async_sgd.synthetic_trace import steps_per_s
from models.async_sgd.timeline import Timeline, simulate_trace
from models.async_sgd.workers import group_of_each
from models.profiled_run import single_flow_Bps
from profilers.probe import PlannedRun
from studies import run_tables
from studies.rounds import Round
from warehouse.records import BadInput, Role, Run, Scenario

DIRECTIONS = ("downlink", "uplink")
TABLE_1 = ("dnn", "direction", "mean", "median", "p95", "maximum", "n")


@dataclass(frozen=True)
class CapturedProfile:
    """A captured profile: rows of `captured.transfers`, and the raw tables they come from."""

    run: Run
    scenario: Scenario
    transfers: pl.DataFrame
    frames: pl.DataFrame
    overheads: pl.DataFrame
    operations: pl.DataFrame
    edges: pl.DataFrame
    speed_Bps: Mapping[str, float]
    """Goodput of the profiled link by direction."""

    @property
    def title(self) -> str:
        """The profiled curve: what all its numbers of workers have in common."""
        return self.scenario.label.rpartition(", W=")[0]

    @property
    def directions(self) -> list[str]:
        """Where packets of tensors were captured."""
        captured = set(self.transfers["direction"])
        return [direction for direction in DIRECTIONS if direction in captured]


def captured_profiles(round_: Round, landing: Path) -> list[CapturedProfile]:
    """Return the profiles of a round whose packets were captured, in the order of the study."""
    links = {need.subject.link_mbps: run for need, run in round_.runs_of("links").items()}
    profiles = round_.runs_of("tf_trace").items()
    return [
        profile
        for need, run in profiles
        if need.subject.link_mbps in links
        and (profile := _profile(need, run, links[need.subject.link_mbps], landing)) is not None
    ]


def overhead_lines(profiles: Sequence[CapturedProfile]) -> dict[tuple[Role, str], Overhead]:
    """Return the line of each receiving role and node type, over all profiles of a round.

    What is too little for a line is left out: see `models.async_sgd.overhead.fit`.
    """
    lines = {}
    for (role, node_type), rows in overhead_rows(profiles).items():
        try:
            (lines[role, node_type],) = overhead.fit(rows, {role: node_type})
        except BadInput:
            continue
    return lines


def overhead_rows(profiles: Sequence[CapturedProfile]) -> dict[tuple[Role, str], pl.DataFrame]:
    """Return role, size_bytes and overhead_s of all transfers, by receiving role and node type."""
    pieces: dict[tuple[Role, str], list[pl.DataFrame]] = {}
    for profile in profiles:
        for group in profile.scenario.nodes:
            overheads = profile.overheads.filter(role=group.role)
            pieces.setdefault((group.role, group.node_type), []).append(overheads)
    return {key: pl.concat(parts) for key, parts in sorted(pieces.items())}


def overhead_by_size(rows: pl.DataFrame, line: Overhead) -> pl.DataFrame:
    """Return size_mb, low_ms, median_ms and high_ms (10 to 90 %) of each size, and line_ms."""
    overhead_ms = 1e3 * pl.col("overhead_s")
    line_s = line.alpha_s_per_byte * pl.col("size_bytes") + line.beta_s
    return (
        rows.group_by("size_bytes")
        .agg(
            low_ms=overhead_ms.quantile(0.1),
            median_ms=overhead_ms.median(),
            high_ms=overhead_ms.quantile(0.9),
        )
        .sort("size_bytes")
        .with_columns(size_mb=pl.col("size_bytes") / 1e6, line_ms=1e3 * line_s)
    )


def behaviours(profiles: Sequence[CapturedProfile]) -> pl.DataFrame:
    """Return title, dnn, largest_bytes and the fields of `http2.Behaviour`, by direction."""
    rows = [
        {
            "title": profile.title,
            "dnn": profile.scenario.workload.dnn,
            "largest_bytes": profile.transfers.filter(direction=direction)["size_bytes"].max(),
            **http2.behaviour(profile.transfers, profile.frames, direction).model_dump(),
        }
        for profile in profiles
        for direction in profile.directions
    ]
    return pl.DataFrame(rows, infer_schema_length=None)


def end_time_errors(profiles: Sequence[CapturedProfile]) -> pl.DataFrame:
    """Return Table 1 of the paper, its errors as parts of 1: one row per network.

    Streams are sent whole, at the goodput of one flow, as predictions have it.
    """
    by_dnn: dict[str, list[pl.DataFrame]] = {}
    for profile in profiles:
        if "downlink" in profile.directions:
            speed_Bps = profile.speed_Bps["downlink"]
            predicted = streams.end_times(profile.transfers, "downlink", speed_Bps, None)
            by_dnn.setdefault(profile.scenario.workload.dnn, []).append(predicted)
    rows = [
        {"dnn": dnn, **streams.errors(pl.concat(parts), "downlink").model_dump()}
        for dnn, parts in by_dnn.items()
    ]
    return pl.DataFrame(rows).select(TABLE_1) if rows else pl.DataFrame()


def kept_orders(profiles: Sequence[CapturedProfile]) -> pl.DataFrame:
    """Return title and the fields of `KeptOrder`, one row per profile."""
    rows = [
        {
            "title": profile.title,
            **kept_order(
                profile.transfers,
                profile.operations,
                profile.edges,
                profile.scenario.strategy.order,
            ).model_dump(),
        }
        for profile in profiles
    ]
    return pl.DataFrame(rows, infer_schema_length=None)


def announced_windows(profile: CapturedProfile, direction: str) -> pl.DataFrame:
    """Return seconds since the first and window_bytes of what a receiver announced as WIN."""
    receiver = "worker" if direction == "downlink" else "server"
    settings = (
        profile.frames.filter(direction=direction, sender=receiver, type="SETTINGS")
        .drop_nulls("value")
        .sort("time_us")
    )
    since_first_us = pl.col("time_us") - pl.col("time_us").min()
    return settings.select(seconds=since_first_us / 1e6, window_bytes="value")


def _profile(need: PlannedRun, run: Run, link: Run, landing: Path) -> CapturedProfile | None:
    frames = run_tables.tables(landing, run)
    if "stream" not in frames or "http2_frame" not in frames:
        return None
    recorded = frames["operation"], frames["timing"], frames["step"]
    speeds = run_tables.table(landing, link, "link")
    return CapturedProfile(
        run=run,
        scenario=need.scenario,
        transfers=transfers(frames["stream"], *recorded),
        frames=frames["http2_frame"],
        overheads=overhead.overheads(frames["stream"], *recorded),
        operations=frames["operation"],
        edges=frames["edge"],
        speed_Bps={direction: single_flow_Bps(speeds, direction) for direction in DIRECTIONS},
    )


STEPS = 5
"""Steps of each worker in a trace."""


def simulate_timeline(model: AsyncSGD, scenario: Scenario, steps: int) -> tuple[Timeline, float]:
    """Return steps of a simulation after its warm-up, and its throughput in steps/s."""
    trace = simulate_trace(model, scenario, record=True)
    skip = model.parameters.settings.warm_up_steps
    graphs = [group.graph for group in group_of_each(model.simulation(scenario, 0))]
    shown = timeline.timeline_of_trace(graphs, trace, skip=skip, count=steps)
    return shown, steps_per_s(trace, skip)
