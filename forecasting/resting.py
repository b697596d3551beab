"""What forecasts of a job rest on: the runs of a round that meet what a system asks for."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from models.profiled_run import refusal
from models.system import System
from models.systems import SYSTEMS
from studies.job import BY_OPERATIONS, Job
from studies.parts import Part, parts
from studies.rounds import Round
from warehouse.asks import Ask, Refusal
from warehouse.records import Backend, Scenario

Resting = Mapping[Scenario, tuple[Part, ...] | Refusal]
"""By scenario, the runs that a forecast rests on, or why there is none."""


def resting(system: System, job: Job, needed: Sequence[Part], backend: Backend) -> Resting:
    """Return what a system's forecast of each scenario of a job rests on.

    Args:
        system: that forecasts.
        job: one of a study, or as one of its jobs is profiled.
        needed: what a round of the study needs; found parts keep its order.
        backend: where it is measured.
    """
    profiles = [part for part in needed if part.profiles]
    found: dict[Scenario, tuple[Part, ...] | Refusal] = {}
    for scenario in job.scenarios(backend):
        asks = system.rests_on(scenario)
        if isinstance(asks, Refusal):
            found[scenario] = asks
            continue
        met = [_met(ask, job, profiles, backend) for ask in asks]
        refused = next((one for one in met if isinstance(one, Refusal)), None)
        found[scenario] = refused or _in_order(met, profiles)
    return found


def rested_on(
    system: System, job: Job, needed: Sequence[Part], backend: Backend
) -> tuple[Part, ...]:
    """Return all that a system's forecasts of a job rest on."""
    return _in_order(resting(system, job, needed, backend).values(), needed)


def profiled_jobs(round_: Round) -> Round | None:
    """Return a round with only the jobs whose profiles have landed, None if none has."""
    if round_.study.kind in BY_OPERATIONS:
        return _with_jobs(round_, [job for job in round_.study.jobs if _has_landed(round_, job)])
    jobs = [
        job
        for job in round_.study.jobs
        if all(
            round_.run_of(part)
            for system in SYSTEMS
            for part in rested_on(system, job, round_.parts, round_.backend)
        )
    ]
    return _with_jobs(round_, jobs)


def _has_landed(round_: Round, job: Job) -> bool:
    """Tell whether a job by operations counts: fitted if profiled, others if measured at all.

    All others are predicted from the profiles of those that are fitted, whichever there are.
    """
    found = parts(round_.study.model_copy(update={"jobs": (job,)}), round_.backend)
    there = [round_.run_of(part) is not None for part in found]
    return all(there) if job.fitted else any(there)


def _with_jobs(round_: Round, jobs: Sequence[Job]) -> Round | None:
    study = round_.study.model_copy(update={"jobs": tuple(jobs)})
    return replace(round_, study=study) if jobs else None


def _in_order(
    found: Iterable[Sequence[Part] | Refusal], needed: Sequence[Part]
) -> tuple[Part, ...]:
    """Return each part once, as needed; refusals rest on nothing."""
    wanted = {part for some in found if not isinstance(some, Refusal) for part in some}
    return tuple(part for part in needed if part in wanted)


def _met(ask: Ask, job: Job, profiles: Sequence[Part], backend: Backend) -> list[Part] | Refusal:
    """Return the runs that meet an ask, in a study that profiles a job on links of its own."""
    of_probe = [part for part in profiles if part.probe == ask.probe]
    match ask.whose:
        case "own":
            profiled = _on_profiled_link(ask.scenario, job, backend)
            if ask.on_its_link and (reason := refusal(profiled, ask.scenario)):
                return Refusal(reason)
            found = [part for part in of_probe if _is_profile(part, profiled)]
        case "cluster":
            speeds = job.link_speeds(backend)
            found = [part for part in of_probe if _is_on(part, ask.scenario, speeds)]
        case "train":
            found = of_probe
    if found or ask.optional:
        return found
    return Refusal(f"the study has no {ask.probe} of it", foreign=True)


def _on_profiled_link(scenario: Scenario, job: Job, backend: Backend) -> Scenario:
    if scenario.link_mbps is None:
        return scenario
    return scenario.model_copy(update={"link_mbps": job.profiled(backend).link_mbps})


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
        return set(part.job.worker) <= types
    return part.config.get("worker", next(iter(types))) in types
