"""A study, read and checked: can it run here, and can it be forecast?"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import cast, get_args

import networks
from forecasting.inputs import (
    InputRuns,
    input_runs_by_scenario,
    inputs_of_study,
    inputs_of_systems,
    systems_of,
)
from models.system import NotCovered, System
from profilers.allreduce.probe import mtu_bytes
from profilers.clusters import BackendChoice, choose_backend
from profilers.clusters.emulated import check_shares
from profilers.clusters.fleet import BACKENDS
from profilers.clusters.netns import check_count
from profilers.clusters.node_types import check_host, fleet_types, node_group
from profilers.clusters.ssh import check_machines
from profilers.probe import PlannedRun, RequestedScenarios
from profilers.probes import PROBES
from studies.curve import Curve
from studies.planned_runs import (
    SystemInputs,
    group_by_start,
    nodes_of,
    requested_scenarios,
    required_runs,
)
from studies.study import Study, read_study
from warehouse.extras import has_extra, how_to_install
from warehouse.records import (
    Backend,
    BadInput,
    MissingTool,
    NodeGroup,
    Role,
    Scenario,
    StepcastError,
)
from warehouse.requirements import Refusal


def check_study(study: Study, source: Path, backend: Backend, asking: SystemInputs) -> None:
    """Refuse networks, node types, numbers of nodes and settings that are not possible here.

    Raises:
        BadInput: naming the file and the field.
        MissingTool: a probe needs a program that this host lacks.
    """
    for curve in study.curves:
        place = f"{source}: {study.place_of(curve)}"
        _check_network(curve, place)
        for name in curve.worker:
            name_field(f"{place}.worker", partial(_check_type, "worker", name, backend))
        if curve.server is not None:
            name_field(f"{place}.server", partial(_check_type, "server", curve.server, backend))
        trained_by = curve.scenarios(backend)[-1].nodes
        field = "mix" if curve.mix else "workers"
        name_field(f"{place}.{field}", partial(_check_nodes, trained_by, backend))
    _check_hidden(study, source, backend)
    try:
        needed = required_runs(study, backend, asking)
    except BadInput as error:
        raise BadInput(f"{source}: {error}") from None
    used = {need.probe for need in needed}
    if idle := [name for name in study.probes if name not in used]:
        why = "no chosen system asks for it, and it judges no test scenario"
        if study.only_profiles:
            why = "it can tell nothing of what is listed under train"
        raise BadInput(f"{source}: probes.{idle[0]}: nothing of it is needed: {why}; leave it out")
    for start in group_by_start(needed):
        field = f"{source}: probes.{start[0].probe}"
        name_field(field, partial(_check_nodes, nodes_of(start), backend))
    wanted = requested_scenarios(study, backend, asking)
    _check_train(study, source, backend, wanted)
    for name, requested in wanted.items():
        if name.startswith("tf_") and backend not in BACKENDS and not has_extra("tensorflow"):
            raise StepcastError(f"{source}: probes.{name}: {how_to_install('tensorflow')}")
        needs = [need for need in needed if need.probe == name]
        name_field(
            f"{source}: probes.{name}", partial(PROBES[name].check, requested, needs, backend)
        )


def _check_train(
    study: Study, source: Path, backend: Backend, wanted: Mapping[str, RequestedScenarios]
) -> None:
    """Refuse train scenarios that would be of no use to any chosen system, or named probe."""
    use = "no named probe concerns it; leave it out, or name one that does"
    if not study.only_profiles:
        use = "no chosen system learns from it; leave it out, or choose a system that does"
    shown = {scenario for requested in wanted.values() for scenario in requested.train}
    for curve in study.curves:
        if not curve.is_judged and shown.isdisjoint(curve.scenarios(backend)):
            raise BadInput(f"{source}: {study.place_of(curve)}: {use}")


def _check_hidden(study: Study, source: Path, backend: Backend) -> None:
    """Refuse test scenarios that are train scenarios where links are as they are."""
    curves = [curve for curve in study.curves if not curve.is_judged]
    shown = {scenario for curve in curves for scenario in curve.scenarios(backend)}
    for curve in study.curves:
        if curve.is_judged and (shared := shown & set(curve.scenarios(backend))):
            raise BadInput(
                f"{source}: {study.place_of(curve)}: on {backend}, whose links are as they are, "
                f"{min(scenario.label for scenario in shared)} is a train scenario too, "
                "where fits would see it; leave one out"
            )


def name_field(field: str, check: Callable[[], None]) -> None:
    """Say of which field a check complains.

    Raises:
        BadInput: as the check, behind the field; MissingTool too.
    """
    try:
        check()
    except (BadInput, MissingTool) as error:
        raise type(error)(f"{field}: {error}") from None


def _check_nodes(groups: Sequence[NodeGroup], backend: Backend) -> None:
    if backend == "emulated":
        check_shares(groups)
        check_count(sum(group.count for group in groups))
    if backend == "ssh":
        check_machines(groups)


def _check_type(role: Role, name: str, backend: Backend) -> None:
    group = node_group(role, name, 1)
    if (name in fleet_types()) != (backend in BACKENDS):
        raise BadInput(f"there are no nodes of type {name!r} on backend {backend}")
    if backend not in BACKENDS:
        check_host(group)


def _check_network(curve: Curve, field: str) -> None:
    try:
        networks.check(curve.dnn, framework=curve.framework)
    except ValueError as error:
        raise BadInput(f"{field}.dnn: {error}") from None
    try:
        networks.check(curve.dnn, curve.image_size, framework=curve.framework)
    except ValueError as error:
        raise BadInput(f"{field}.image_size: {error}") from None


@dataclass(frozen=True)
class LoadedStudy:
    """A study, what its systems ask for, the backend it runs on, and why on that one."""

    study: Study
    asking: SystemInputs
    backend: Backend
    why: str


@cache
def chosen_backend(wanted: str) -> tuple[Backend, str]:
    """Return the backend to use and why; tries this host out once per process.

    Raises:
        BadInput: there is no such choice.
    """
    choices: tuple[BackendChoice, ...] = get_args(BackendChoice)
    for choice in choices:
        if choice == wanted:
            return choose_backend(choice)
    raise BadInput(f"no backend {wanted!r}; the choices are {', '.join(choices)}")


def load_study(path: Path, backend: str | None) -> LoadedStudy:
    """Return a study that can run here; `backend` overrules what its file says.

    Raises:
        BadInput: the study is wrong or cannot run here.
        MissingTool: a probe needs a program that this host lacks.
    """
    study = read_study(path)
    chosen, why = chosen_backend(backend or study.backend)
    check_forecasts(study, path, chosen)
    return LoadedStudy(study, inputs_of_study(study), chosen, why)


def load_unchecked(path: Path, backend: str | None) -> LoadedStudy:
    """Return a study whose runs are looked at: this host may lack what they needed.

    Raises:
        BadInput: the study is wrong, or there is no such backend.
    """
    study = read_study(path)
    wanted = backend or study.backend
    if wanted in get_args(Backend):
        return LoadedStudy(study, inputs_of_study(study), cast(Backend, wanted), "it is named")
    chosen, why = chosen_backend(wanted)
    return LoadedStudy(study, inputs_of_study(study), chosen, why)


# Can a study be forecast? Asked before anything is measured.


def check_forecasts(study: Study, source: Path, backend: Backend) -> None:
    """Refuse a study that cannot be measured here, or of which a scenario could not be forecast.

    Raises:
        BadInput: naming the file and the field.
        MissingTool: a probe needs a program that this host lacks.
    """
    try:
        systems = systems_of(study)
    except BadInput as error:
        raise BadInput(f"{source}: {error}") from None
    check_study(study, source, backend, inputs_of_systems(systems))
    needed = required_runs(study, backend, inputs_of_systems(systems))
    judged = [curve for curve in study.curves if curve.is_judged]
    rests_of = {
        (system.name, curve): input_runs_by_scenario(
            system, curve, needed, backend, study.learns_from
        )
        for system in systems
        for curve in judged
    }
    for curve in judged:
        for scenario in curve.scenarios(backend):
            rests = {system: rests_of[system.name, curve][scenario] for system in systems}
            if reason := _refused_by_all(rests, scenario):
                raise BadInput(
                    f"{source}: {study.place_of(curve)}: no system forecasts {scenario.label}: "
                    f"{reason}"
                )
    covered: set[Scenario] = set()
    uncovered: dict[Scenario, BadInput] = {}
    for system in systems:
        by_curve = {curve: rests_of[system.name, curve] for curve in judged}
        seen = _needs_of(by_curve.values())
        for curve, of_curve in by_curve.items():
            for scenario, rest in of_curve.items():
                if isinstance(rest, Refusal):
                    continue
                planned = seen if system.pooled else rest
                place = study.place_of(curve)
                try:
                    system.check(scenario, planned, mtu_bytes(backend))
                except BadInput as error:
                    where = "" if str(error).startswith("probes.") else f"{place}: "
                    problem = type(error)(f"{source}: {where}{error}")
                    if not isinstance(error, NotCovered):
                        raise problem from None
                    uncovered.setdefault(scenario, problem)
                else:
                    covered.add(scenario)
    for scenario, problem in uncovered.items():
        if scenario not in covered:
            raise problem


def _refused_by_all(
    rests: Mapping[System, tuple[PlannedRun, ...] | Refusal], scenario: Scenario
) -> str | None:
    """Return the reason to tell where every system refuses a scenario.

    That of a system about such training, else of one whose asks the study does not meet.
    """
    refused = {system: refusal for system, refusal in rests.items() if isinstance(refusal, Refusal)}
    if len(refused) < len(rests):
        return None
    reasons = [
        (refusal.foreign, isinstance(system.requires(scenario), Refusal), refusal.reason)
        for system, refusal in refused.items()
    ]
    return min(reasons, key=lambda reason: reason[:2])[2]


def _needs_of(of_curves: Iterable[InputRuns]) -> list[PlannedRun]:
    """Return each need that any forecast rests on, once."""
    # By identity, as in forecasting.inputs: all are of one list of planned runs.
    rests = {id(rest): rest for rests in of_curves for rest in rests.values()}
    several = (rest for rest in rests.values() if not isinstance(rest, Refusal))
    return list({id(run): run for runs in several for run in runs}.values())
