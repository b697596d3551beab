"""What forecasts of a curve rest on: the runs of a round that meet what a system asks for."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from models.profiled_run import refusal
from models.system import System
from models.systems import SYSTEMS
from studies.curve import BY_OPERATIONS, Curve
from studies.parts import Part, parts
from studies.rounds import Round
from warehouse.asks import Ask, Refusal
from warehouse.records import Backend, Scenario

Resting = Mapping[Scenario, tuple[Part, ...] | Refusal]
"""By scenario, the runs that a forecast rests on, or why there is none."""


def resting(system: System, curve: Curve, needed: Sequence[Part], backend: Backend) -> Resting:
    """Return what a system's forecast of each scenario of a curve rests on.

    Args:
        system: that forecasts.
        curve: one of a study, or as one of its curves is profiled.
        needed: what a round of the study needs; found parts keep its order.
        backend: where it is measured.
    """
    profiles = [part for part in needed if part.profiles]
    found: dict[Scenario, tuple[Part, ...] | Refusal] = {}
    for scenario in curve.scenarios(backend):
        asks = system.rests_on(scenario)
        if isinstance(asks, Refusal):
            found[scenario] = asks
            continue
        met = [_met(ask, curve, profiles, backend) for ask in asks]
        refused = next((one for one in met if isinstance(one, Refusal)), None)
        found[scenario] = refused or _in_order(met, profiles)
    return found


def rested_on(
    system: System, curve: Curve, needed: Sequence[Part], backend: Backend
) -> tuple[Part, ...]:
    """Return all that a system's forecasts of a curve rest on."""
    return _in_order(resting(system, curve, needed, backend).values(), needed)


def profiled_curves(round_: Round) -> Round | None:
    """Return a round with only the curves whose profiles have landed, None if none has."""
    if round_.study.kind in BY_OPERATIONS:
        return _with_curves(
            round_, [curve for curve in round_.study.curves if _has_landed(round_, curve)]
        )
    curves = [
        curve
        for curve in round_.study.curves
        if all(
            round_.run_of(part)
            for system in SYSTEMS
            for part in rested_on(system, curve, round_.parts, round_.backend)
        )
    ]
    return _with_curves(round_, curves)


def _has_landed(round_: Round, curve: Curve) -> bool:
    """Tell whether a curve by operations counts: fitted if profiled, others if measured at all.

    All others are predicted from the profiles of those that are fitted, whichever there are.
    """
    found = parts(round_.study.model_copy(update={"curves": (curve,)}), round_.backend)
    there = [round_.run_of(part) is not None for part in found]
    return all(there) if curve.fitted else any(there)


def _with_curves(round_: Round, curves: Sequence[Curve]) -> Round | None:
    study = round_.study.model_copy(update={"curves": tuple(curves)})
    return replace(round_, study=study) if curves else None


def _in_order(
    found: Iterable[Sequence[Part] | Refusal], needed: Sequence[Part]
) -> tuple[Part, ...]:
    """Return each part once, as needed; refusals rest on nothing."""
    wanted = {part for some in found if not isinstance(some, Refusal) for part in some}
    return tuple(part for part in needed if part in wanted)


def _met(
    ask: Ask, curve: Curve, profiles: Sequence[Part], backend: Backend
) -> list[Part] | Refusal:
    """Return the runs that meet an ask, in a study that profiles a curve on links of its own."""
    of_probe = [part for part in profiles if part.probe == ask.probe]
    match ask.whose:
        case "own":
            profiled = _on_profiled_link(ask.scenario, curve, backend)
            if ask.on_its_link and (reason := refusal(profiled, ask.scenario)):
                return Refusal(reason)
            found = [part for part in of_probe if _is_profile(part, profiled)]
        case "cluster":
            speeds = curve.link_speeds(backend)
            found = [part for part in of_probe if _is_on(part, ask.scenario, speeds)]
        case "train":
            found = of_probe
    if found or ask.optional:
        return found
    return Refusal(f"the study has no {ask.probe} of it", foreign=True)


def _on_profiled_link(scenario: Scenario, curve: Curve, backend: Backend) -> Scenario:
    if scenario.link_mbps is None:
        return scenario
    return scenario.model_copy(update={"link_mbps": curve.profiled(backend).link_mbps})


def _is_profile(part: Part, profiled: Scenario) -> bool:
    """Tell whether a part profiles a scenario; passes are timed with several batch sizes."""
    found = part.scenario
    if found is None or part.probe not in ("torch_compute", "torch_memory"):
        return found == profiled
    return _with_batch(found, 1) == _with_batch(profiled, 1)


def _with_batch(scenario: Scenario, batch_size: int) -> Scenario:
    load = scenario.workload.model_copy(update={"batch_size": batch_size})
    nodes = tuple(one.model_copy(update={"batch_size": None}) for one in scenario.nodes)
    return scenario.model_copy(update={"workload": load, "nodes": nodes})


def _is_on(part: Part, scenario: Scenario, speeds: Collection[float | None]) -> bool:
    """Tell whether a part says how fast nodes of a scenario, or links of these speeds, are."""
    types = {group.node_type for group in scenario.worker_groups}
    if part.scenario is not None:
        return part.scenario.nodes[0].node_type in types
    if part.link_mbps not in speeds:
        return False
    if part.probe == "allreduce":
        return set(part.curve.worker) <= types
    return part.config.get("worker", next(iter(types))) in types
