"""How workers of a fitted job are simulated: options of each type, and how many steps."""

from collections.abc import Sequence
from math import ceil, inf

from models.async_sgd.link_sharing import MeasuredSharing
from models.async_sgd.parameters import LinkProfile, Parameters, ProfiledRun, Settings
from models.async_sgd.workers import Sharing, SimulationOptions
from warehouse.records import BadInput, Scenario

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
    as_seen = own and settings.measured_shares
    left = 1 - (scenario.cross_traffic or 0)
    return SimulationOptions(
        workers=workers,
        steps=steps,
        downlink_Bps=left * link.downlink_Bps,
        uplink_Bps=left * link.uplink_Bps,
        worker_downlink_Bps=link.downlink_Bps if own else inf,
        worker_uplink_Bps=link.uplink_Bps if own else inf,
        sharing=sharing,
        downlink_spread=_spread(link.downlink_spread, down if as_seen else None),
        uplink_spread=_spread(link.uplink_spread, up if as_seen else None),
        newcomer_weight=1.0 if as_seen and down and up else settings.newcomer_weight,
        newcomer_pause_s=settings.newcomer_pause_s,
        downlink_measured=_measured(down, as_seen) if own else None,
        uplink_measured=_measured(up, as_seen) if own else None,
        window_bytes=settings.window_bytes if strategy.flow_control else None,
        ranks=ranks,
        inter_op_threads=profiled.scenario.worker_groups[0].inter_op_threads,
        cores=worker_cores(profiled.scenario),
        server_cores=server_cores(scenario) if settings.share_server_cores else None,
        client_gap_s=(profiled.client_gap_s,),
        seed=seed,
    )


def _spread(simultaneous: float, measured: MeasuredSharing | None) -> float:
    """Return the spread that transfers were seen to have, else that of simultaneous flows."""
    seen = None if measured is None else measured.spread
    return simultaneous if seen is None else seen


def _measured(measured: MeasuredSharing | None, as_seen: bool) -> MeasuredSharing | None:
    return measured if measured is None or as_seen else measured.equally()


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


def server_cores(scenario: Scenario) -> float:
    """Return how many operations a server can run at the speed of one that runs alone."""
    group = next(group for group in scenario.nodes if group.role == "server")
    return max(group.cpu_share or group.threads, 1.0)
