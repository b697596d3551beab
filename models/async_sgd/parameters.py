"""What a fit of asynchronous SGD keeps, and how it has workers and links simulated."""

from collections.abc import Iterator, Sequence
from math import ceil, inf, sqrt
from statistics import fmean
from typing import Any, Literal

import polars as pl
from pydantic import Field

from models.async_sgd.link_sharing import MeasuredSharing, measured_sharing
from models.async_sgd.workers import Sharing, SimulationOptions
from models.profiled_run import by_link_speed, single_flow_Bps
from models.system import Tables
from warehouse.records import BadInput, Record, Scenario


class Settings(Record):
    """How to simulate; the defaults are explained in docs/async_sgd.md.

    `window_bytes` is what a stream may send before it has to let others pass, in scenarios with
    flow control; None if windows are updated before that shows. `newcomer_weight` is the weight of
    a transfer that finds another one on a link, when its worker has sent nothing there for
    `newcomer_pause_s`. `several_servers` is how links are shared where there is more than one
    server. A scenario simulates about `simulated_operations`, divided among its seeds and workers,
    and no fewer than 20 steps per worker after `warm_up_steps`. Intervals cover `coverage`, if
    predictions err by chance with a relative standard deviation of `model_error` besides what the
    simulation's seeds show.
    """

    window_bytes: int | None = Field(default=None, gt=0)
    newcomer_weight: float = Field(default=0.8, gt=0, le=1)
    newcomer_pause_s: float = Field(default=0.2, ge=0)
    several_servers: Literal["max_min", "two_servers"] = "max_min"
    warm_up_steps: int = Field(default=50, ge=0)
    simulated_operations: int = Field(default=5_000_000, ge=1)
    seeds: int = Field(default=5, ge=2)
    coverage: float = Field(default=0.9, gt=0, lt=1)
    model_error: float = Field(default=0.05, ge=0)


class LinkProfile(Record):
    """What links shaped to `link_mbps` do in each direction, and who measured it.

    `_Bps` is the goodput of one flow, `_spread` the standard deviation of the logarithm of the
    weights of simultaneous flows, `_measured` what transfers of training get, if that was probed.
    """

    link_mbps: float | None
    downlink_Bps: float = Field(gt=0)
    uplink_Bps: float = Field(gt=0)
    downlink_spread: float = Field(ge=0)
    uplink_spread: float = Field(ge=0)
    downlink_measured: MeasuredSharing | None = None
    uplink_measured: MeasuredSharing | None = None
    run_ids: tuple[str, ...]


class ProfiledRun(Record):
    """A profiled run, its scenario (one worker), and the client's time between two steps."""

    run_id: str
    scenario: Scenario
    client_gap_s: float


class Parameters(Record):
    """What was fitted, besides the profiled steps themselves.

    `profiled` are runs of one job, one for each type of its workers; where `replaced`, its
    variables were on one server and have been put on the servers that their scenarios name.
    """

    profiled: tuple[ProfiledRun, ...] = Field(min_length=1)
    replaced: bool = False
    links: tuple[LinkProfile, ...]
    settings: Settings

    @property
    def scenario(self) -> Scenario:
        """The first profiled scenario: the others differ in their worker only."""
        return self.profiled[0].scenario


# From the rows of link probes to what a simulation needs to know of links.


def link_profiles(tables: Tables) -> Iterator[LinkProfile]:
    """Yield one for each speed that links were shaped to, None for unshaped ones.

    Args:
        tables: run, link, and contention of one type of worker, if it was probed.

    Raises:
        BadInput: a speed without a trial of a single flow.
    """
    runs = tables["run"]
    shared = by_link_speed(runs, tables["contention"]) if "contention" in tables else {}
    for link_mbps, rows in by_link_speed(runs, tables["link"]).items():
        probed = shared.get(link_mbps)
        found: dict[str, Any] = {}
        for name in ("downlink", "uplink"):
            found[f"{name}_Bps"] = speed_Bps = single_flow_Bps(rows, name)
            found[f"{name}_spread"] = _spread(rows, name)
            if probed is not None:
                found[f"{name}_measured"] = measured_sharing(probed, name, speed_Bps)
        run_ids = sorted({*rows["run_id"], *([] if probed is None else probed["run_id"])})
        yield LinkProfile(link_mbps=link_mbps, run_ids=tuple(run_ids), **found)


def _spread(links: pl.DataFrame, direction: str) -> float:
    """Root mean square, over trials of several flows, of the sd of their log bandwidths."""
    several = links.filter(
        pl.col("flows") > 1, pl.col("direction") == direction, pl.col("bandwidth_Bps") > 0
    )
    trials = several.group_by("run_id", "flows", "trial").agg(
        pl.col("bandwidth_Bps").log().var().alias("variance")
    )
    variances = trials["variance"].drop_nulls()
    return sqrt(fmean(variances)) if len(variances) else 0.0


MIN_COUNTED_STEPS = 20


def options_of(
    parameters: Parameters,
    profiled: ProfiledRun,
    scenario: Scenario,
    *,
    workers: int,
    steps: int,
    seed: int,
    ranks: tuple[int, ...] | None = None,
) -> SimulationOptions:
    """Return how workers of one profiled type are simulated in a scenario.

    Raises:
        BadInput: a link nobody measured.
    """
    settings, strategy = parameters.settings, scenario.strategy
    link = link_of(parameters, scenario)
    down, up = link.downlink_measured, link.uplink_measured
    alone = strategy.servers == 1 and down is None and up is None
    sharing: Sharing = "equal" if alone else settings.several_servers
    own = sharing == "max_min"
    left = 1 - (scenario.cross_traffic or 0)
    return SimulationOptions(
        workers=workers,
        steps=steps,
        downlink_Bps=left * link.downlink_Bps,
        uplink_Bps=left * link.uplink_Bps,
        worker_downlink_Bps=link.downlink_Bps if own else inf,
        worker_uplink_Bps=link.uplink_Bps if own else inf,
        sharing=sharing,
        downlink_spread=link.downlink_spread,
        uplink_spread=link.uplink_spread,
        newcomer_weight=settings.newcomer_weight,
        newcomer_pause_s=settings.newcomer_pause_s,
        downlink_measured=down if own else None,
        uplink_measured=up if own else None,
        window_bytes=settings.window_bytes if strategy.flow_control else None,
        ranks=ranks,
        inter_op_threads=profiled.scenario.worker_groups[0].inter_op_threads,
        cores=worker_cores(profiled.scenario),
        client_gap_s=(profiled.client_gap_s,),
        seed=seed,
    )


def steps_of(
    settings: Settings, workers: Sequence[int], operations: Sequence[int], alone_s: Sequence[float]
) -> list[int]:
    """Return how many steps a worker of each type simulates.

    Faster ones do more, so that all of them train for as long. Steps are as many as
    `Settings.simulated_operations` allows, and the slowest worker does no fewer than 20 after the
    warm-up.

    Args:
        settings: how to simulate.
        workers: how many there are of each type.
        operations: of a step of each type.
        alone_s: from step to step of a worker of each type that is alone.
    """
    faster = [max(alone_s) / one_s for one_s in alone_s]
    every_step = sum(
        count * of_step * more
        for count, of_step, more in zip(workers, operations, faster, strict=True)
    )
    affordable = int(settings.simulated_operations // (every_step * settings.seeds))
    fewest = max(settings.warm_up_steps + MIN_COUNTED_STEPS, affordable)
    return [ceil(fewest * more) for more in faster]


def link_of(parameters: Parameters, scenario: Scenario) -> LinkProfile:
    """Return what is known of the links of a scenario.

    Raises:
        BadInput: nobody measured them.
    """
    for link in parameters.links:
        if link.link_mbps == scenario.link_mbps:
            return link
    known = ", ".join(f"{link.link_mbps}" for link in parameters.links)
    raise BadInput(
        f"{scenario.label}: no link of {scenario.link_mbps} Mb/s was measured, only {known}; "
        "measure it with the links probe"
    )


def worker_cores(scenario: Scenario) -> float:
    """Return how many operations a worker can run at the speed of one that runs alone.

    A worker with a share of less than the threads of one operation is full with that one.
    """
    group = scenario.worker_groups[0]
    return max((group.cpu_share or group.inter_op_threads) / group.threads, 1.0)
