"""What ICPE'20 shows of asynchronous SGD, of a round: overhead, HTTP/2, steps, windows, servers."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

import polars as pl

from forecasting.async_sgd import (
    CapturedProfile,
    FittedModels,
    announced_windows,
    behaviours,
    captured_profiles,
    end_time_errors,
    kept_orders,
    overhead_lines,
    overhead_rows,
)
from models.async_sgd import sensitivity
from models.async_sgd.http2 import pieces, rate
from models.async_sgd.overhead import Overhead
from models.async_sgd.predictor import AsyncSGD
from models.async_sgd.profiles import variable_bytes
from models.async_sgd.sensitivity import measured_throughput, simulated_throughput
from models.async_sgd.synthetic_trace import busy_intervals
from models.async_sgd.timeline import active_links, simulate_trace
from networks.variables import held_bytes
from profilers.probe import PlannedRun
from studies import run_tables
from studies.curve import Curve
from studies.rounds import Round
from studies.study import Study
from warehouse.records import BadInput, Placement, on_images

# What receiving a tensor adds to it (section 3.2.1, Fig. 10 of the ICPE'20 paper).


@dataclass(frozen=True)
class OverheadLine:
    """The line of a receiving role and node type, and what it was fitted to.

    `rows` have size_bytes and overhead_s, one for each transfer.
    """

    line: Overhead
    rows: pl.DataFrame


def overheads(profiles: Sequence[CapturedProfile]) -> tuple[OverheadLine, ...]:
    """Return the line of each receiving role and node type of captured profiles."""
    rows = overhead_rows(profiles)
    return tuple(OverheadLine(line, rows[key]) for key, line in overhead_lines(profiles).items())


# How gRPC sent tensors over HTTP/2 (section 3.2.2, Figs. 3(a), 11 and 12 of the ICPE'20 paper).


BIN_US = 10_000
"""What the use of a link is averaged over."""


@dataclass(frozen=True)
class CapturedStep:
    """One traced step: in which pieces the downlink's streams went out, and what links carried.

    Attributes:
        title: the profile's.
        step: which one.
        downlink: rows of `models.async_sgd.http2.pieces`.
        carried: by direction, start_us of each `BIN_US` and Bps.
    """

    title: str
    step: int
    downlink: pl.DataFrame
    carried: Mapping[str, pl.DataFrame]


@dataclass(frozen=True)
class Http2:
    """What the streams of captured profiles did.

    Attributes:
        behaviours: rows of `forecasting.async_sgd.behaviours`.
        announced: WIN of the downlink over time, of the first profile of each network: seconds and
            window_bytes.
        step: of the profile with most suspended streams, or else with most streams.
    """

    behaviours: pl.DataFrame
    announced: Mapping[str, pl.DataFrame]
    step: CapturedStep | None


def http2(profiles: Sequence[CapturedProfile]) -> Http2 | None:
    """Return what the streams of captured profiles did; None if none was captured."""
    rows = behaviours(profiles)
    if rows.is_empty():
        return None
    return Http2(rows, _announced(profiles), _step(max(profiles, key=_interest)))


def _announced(profiles: Sequence[CapturedProfile]) -> dict[str, pl.DataFrame]:
    by_dnn: dict[str, pl.DataFrame] = {}
    for profile in profiles:
        rows = announced_windows(profile, "downlink")
        if rows.height:
            by_dnn.setdefault(profile.scenario.workload.dnn, rows)
    return by_dnn


def _step(profile: CapturedProfile) -> CapturedStep | None:
    """Return the step of a profile that was sent in most pieces."""
    if "downlink" not in profile.directions:
        return None
    downlink = profile.transfers.filter(direction="downlink")
    by_step = downlink.group_by("step").agg(pl.col("segments").sum(), pl.len())
    step = by_step.sort("segments", "len", "step")["step"][-1]
    sent = {
        name: pieces(profile.transfers, profile.frames, name, step) for name in profile.directions
    }
    carried = {name: rate(rows, BIN_US) for name, rows in sent.items()}
    return CapturedStep(profile.title, step, sent["downlink"], carried)


def _interest(profile: CapturedProfile) -> tuple[int, int]:
    downlink = profile.transfers.filter(direction="downlink")
    return int((downlink["segments"] > 1).sum()), downlink.height


# When each resource is at work in traced steps (Figs. 3(b) and 4 of the ICPE'20 paper).


SHOWN_STEPS = 3


@dataclass(frozen=True)
class TracedSteps:
    """The first traced steps of a network: step, resource, start_us and end_us, laid end to end."""

    dnn: str
    label: str
    rows: pl.DataFrame


def traced_steps(round_: Round, landing: Path) -> tuple[TracedSteps, ...]:
    """Return the first `SHOWN_STEPS` of each network's first profile."""
    by_dnn: dict[str, TracedSteps] = {}
    for need, run in round_.runs_of("tf_trace").items():
        dnn = need.scenario.workload.dnn
        if dnn not in by_dnn:
            tables = run_tables.tables(landing, run)
            rows = busy_intervals(tables["operation"], tables["timing"], SHOWN_STEPS)
            by_dnn[dnn] = TracedSteps(dnn, need.scenario.label, rows)
    return tuple(by_dnn.values())


# How much predictions depend on WIN, ± 50 % (section 3.2.2 of the ICPE'20 paper).


FACTORS = sensitivity.FACTORS


@dataclass(frozen=True)
class Sensitivity:
    """Predictions of a profile with `FACTORS` of WIN, and with streams that are never suspended.

    `rows` are those of `models.async_sgd.sensitivity`.
    """

    title: str
    rows: pl.DataFrame


def windows(
    profiles: Sequence[CapturedProfile], models: Mapping[str, AsyncSGD]
) -> tuple[Sensitivity, ...]:
    """Return predictions of captured profiles under the paper's rule; `models` are by run id.

    The window is what the worker announced first; it is not known where no packets were captured.
    """
    return tuple(_sensitivity(profile, models[profile.run.run_id]) for profile in profiles)


def _sensitivity(profile: CapturedProfile, model: AsyncSGD) -> Sensitivity:
    win = announced_windows(profile, "downlink")["window_bytes"]
    first = win[0] if len(win) else None
    return Sensitivity(profile.title, sensitivity.window_sensitivity(model, first))


# Curves of a study that differ in one thing, beside each other.


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
        for group in group_alike(study, varied)
    )


def group_alike(study: Study, varied: Varied) -> list[list[int]]:
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
    by_label = {}
    for place in sorted(group, key=lambda place: getattr(study.curves[place], varied)):
        curve = study.curves[place]
        label = _NAMES[varied].format(getattr(curve, varied))
        if varied == "link_mbps" and curve.profiled_at_mbps not in (None, curve.link_mbps):
            label += f", profiled at {curve.profiled_at_mbps:g}"
        by_label[label] = rows.filter(curve=place).select(
            "workers", pl.col("predicted", "measured") * curve.batch_size
        )
    return by_label


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


# How throughput leaves the initial synchronisation (Figs. 9, 16 and 24 of the ICPE'20 paper).


WINDOW_STEPS = 5
"""Steps of each worker that one point averages."""
MOST_STEPS = 100
PAPER_WORKERS = 3
"""Of Fig. 16."""
SEEDS = 5


@dataclass(frozen=True)
class Drift:
    """Steps per second of all workers by steps since the start, measured and simulated.

    Both have step and steps_per_s; simulated is the mean of `SEEDS`.
    """

    dnn: str
    label: str
    measured: pl.DataFrame
    simulated: pl.DataFrame


@dataclass(frozen=True)
class LinkUse:
    """When each connection had data under way in simulated steps, `first` ones or later ones.

    `rows` have resource, worker, server, start_s and end_s.
    """

    label: str
    first: bool
    rows: pl.DataFrame


@dataclass(frozen=True)
class Convergence:
    """A run of each network, and how two workers of the first profile use their links."""

    drifts: tuple[Drift, ...]
    links: tuple[LinkUse, ...]


def convergence(round_: Round, landing: Path, models: FittedModels) -> Convergence | None:
    """Return measured and simulated throughput by steps, of three workers of each network.

    None if nothing that was profiled was measured with several workers.
    """
    drifts = []
    for need in _shown(round_).values():
        model = models.of_curve(round_.study.curve_of(need.scenario, round_.backend))
        if model is not None and (drift := _drift(need, round_, landing, model)):
            drifts.append(drift)
    return Convergence(tuple(drifts), tuple(_links(models))) if drifts else None


def _shown(round_: Round) -> dict[str, PlannedRun]:
    """Return the measured run of each network with most like the paper's workers, two or more."""
    by_dnn: dict[str, PlannedRun] = {}
    for need in round_.runs_of("tf_throughput"):
        best = by_dnn.get(need.scenario.workload.dnn)
        if _workers(need) > 1 and (best is None or _distance(need) < _distance(best)):
            by_dnn[need.scenario.workload.dnn] = need
    return by_dnn


def _distance(need: PlannedRun) -> int:
    return abs(_workers(need) - PAPER_WORKERS)


def _workers(need: PlannedRun) -> int:
    return need.scenario.strategy.workers


def _drift(need: PlannedRun, round_: Round, landing: Path, model: AsyncSGD) -> Drift | None:
    run = round_.run_of(need)
    assert run is not None
    tables = run_tables.tables(landing, run)
    seen = measured_throughput(tables["step"], WINDOW_STEPS).head(MOST_STEPS // WINDOW_STEPS)
    if seen.is_empty():
        return None
    steps = WINDOW_STEPS * (seen.height + 1)
    traces = [simulate_trace(model, need.scenario, steps=steps, seed=seed) for seed in range(SEEDS)]
    made = pl.concat(
        simulated_throughput(trace, WINDOW_STEPS).head(seen.height) for trace in traces
    )
    made = made.group_by("step").agg(pl.col("steps_per_s").mean()).sort("step")
    return Drift(need.scenario.workload.dnn, need.scenario.label, seen, made)


def _links(models: FittedModels) -> Iterator[LinkUse]:
    """Yield the use of the links by two workers of the round's first profile, early and late."""
    need, model = next(iter(models.items()))
    scenario = need.scenario.with_workers(2)
    trace = simulate_trace(model, scenario, steps=MOST_STEPS, record=True)
    use = active_links(trace)
    for step in (0, MOST_STEPS // 2):
        start_s = float(trace.step_starts_s[:, step].min())
        end_s = float(trace.step_ends_s[:, step + SHOWN_STEPS - 1].max())
        shown = use.filter(use["end_s"] > start_s, use["start_s"] < end_s)
        yield LinkUse(scenario.label, step == 0, shown)


# How variables are divided among servers (section 5, Fig. 23 of the ICPE'20 paper).


SERVERS = (2, 3)


@dataclass(frozen=True)
class ServerPlacement:
    """The variables of a network on several servers: how many, and the bytes of each server."""

    dnn: str
    variables: int
    placement: Placement
    held_bytes: tuple[int, ...]


def servers(
    round_: Round, landing: Path, models: Mapping[PlannedRun, AsyncSGD]
) -> tuple[ServerPlacement, ...]:
    """Return the bytes on each of `SERVERS`, by every rule, network by network."""
    placements: tuple[Placement, ...] = get_args(Placement)
    return tuple(
        ServerPlacement(dnn, len(sizes_bytes), placement, held_bytes(sizes_bytes, count, placement))
        for dnn, sizes_bytes in _variables(round_, landing, models).items()
        for count in SERVERS
        for placement in placements
    )


def _variables(
    round_: Round, landing: Path, models: Mapping[PlannedRun, AsyncSGD]
) -> dict[str, tuple[int, ...]]:
    """Return the sizes of the variables of each network, from its first profile that has them."""
    by_dnn: dict[str, tuple[int, ...]] = {}
    for need, run in round_.runs_of("tf_trace").items():
        if need.scenario.workload.dnn not in by_dnn:
            operations, profile = run_tables.table(landing, run, "operation"), models[need].profile
            try:
                by_dnn[need.scenario.workload.dnn] = variable_bytes(profile, operations)
            except BadInput:
                continue
    return by_dnn


# All that the paper shows, of a round.


@dataclass(frozen=True)
class AsyncSGDFindings:
    """What the paper shows, of a round; None, or empty: nothing.

    Attributes:
        comparisons: curves that differ in one thing.
        overheads: of received tensors, captured.
        http2: how streams were served, captured.
        end_times: rows of `forecasting.async_sgd.end_time_errors`.
        orders: rows of `forecasting.async_sgd.kept_orders`.
        windows: predictions with other flow-control windows than those captured.
        traced_steps: when resources are at work.
        convergence: how workers drift apart.
        servers: how variables are divided.
    """

    comparisons: tuple[Comparison, ...]
    overheads: tuple[OverheadLine, ...]
    http2: Http2 | None
    end_times: pl.DataFrame
    orders: pl.DataFrame
    windows: tuple[Sensitivity, ...]
    traced_steps: tuple[TracedSteps, ...]
    convergence: Convergence | None
    servers: tuple[ServerPlacement, ...]


def async_sgd_findings(
    round_: Round, rows: pl.DataFrame, landing: Path, models: FittedModels
) -> AsyncSGDFindings:
    """Return what the paper shows, of a round.

    Args:
        round_: that has landed.
        rows: as `forecasting.results.outcome` returns them.
        landing: where.
        models: fitted to its profiles.
    """
    profiles = captured_profiles(round_, landing)
    captured = {profile.run.run_id for profile in profiles}
    by_run = {
        run.run_id: models[need]
        for need, run in round_.runs_of("tf_trace").items()
        if run.run_id in captured
    }
    return AsyncSGDFindings(
        comparisons=comparisons(round_.study, rows),
        overheads=overheads(profiles),
        http2=http2(profiles),
        end_times=end_time_errors(profiles),
        orders=kept_orders(profiles),
        windows=windows(profiles, by_run),
        traced_steps=traced_steps(round_, landing),
        convergence=convergence(round_, landing, models),
        servers=servers(round_, landing, models),
    )
