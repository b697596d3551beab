"""Ceer as systems: of each framework, ours and as published."""

from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from models.ceer import fit
from models.ceer.fit import PROBES, FittedCeer
from models.ceer.parameters import Parameters
from models.system import System, Tables
from networks.catalogue import OWN
from networks.extraction import step_graphs
from warehouse.records import Scenario
from warehouse.requirements import PlannedSubject, Refusal, Requirement


def _requires(framework: str, scenario: Scenario) -> tuple[Requirement, ...] | Refusal:
    reason = fit.explain_refusal(scenario, framework)
    if reason is not None:
        trained = scenario.strategy.kind, scenario.workload.framework
        return Refusal(reason, foreign=trained != ("all_reduce", framework))
    return tuple(Requirement(probe, "train", scenario) for probe in PROBES[framework])


def _load(framework: str, parameters: str, tables: Tables) -> FittedCeer:
    return FittedCeer(Parameters.model_validate_json(parameters), framework=framework)


def _prepare(framework: str, scenarios: Sequence[Scenario]) -> None:
    loads = (
        scenario.workload
        for scenario in scenarios
        if fit.explain_refusal(scenario, framework) is None
    )
    built_in = [load for load in loads if not load.dnn.startswith(OWN)]
    with suppress(ValueError, RuntimeError):
        step_graphs([(load.dnn, load.batch_size, load.image_size) for load in built_in], framework)


def _check(
    between: bool, scenario: Scenario, planned: Sequence[PlannedSubject], mtu_bytes: int | None
) -> None:
    """Refuse scenarios of numbers of devices about which steps of train scenarios say nothing."""
    measured = [need.subject.scenario for need in planned]
    known = [other for other in measured if other is not None]
    fit.check_measured(scenario, known, between=between)


def _system(framework: str, published: bool, **told: Any) -> System:
    return System(
        source="Hafeez, Gandhi, Ceer, section IV",
        tables=(
            "run",
            "scenario",
            "operation",
            "operation_shape",
            "operation_time",
            "sample",
            "dnn",
        ),
        inputs=partial(_requires, framework),
        fit=partial(fit.fit, framework, published),
        load=partial(_load, framework),
        pooled=True,
        in_words="Ceer as published" if published else "Ceer",
        prepare=partial(_prepare, framework),
        check=partial(_check, not published),
        **told,
    )


CEER = _system(
    "tensorflow",
    False,
    name="ceer",
    version="3",
    what="Steps from operations of other networks, with an interval (Hafeez and Gandhi, Ceer).",
    beside="ceer_paper",
)
CEER_PAPER = _system(
    "tensorflow",
    True,
    name="ceer_paper",
    version="1",
    what="Baseline: Ceer as published, with medians of light operations and S by parameters alone.",
)
CEER_PYTORCH = _system(
    "pytorch",
    False,
    name="ceer_pytorch",
    version="4",
    what="As ceer, of PyTorch's operators.",
    beside="ceer_pytorch_paper",
)
CEER_PYTORCH_PAPER = _system(
    "pytorch",
    True,
    name="ceer_pytorch_paper",
    version="1",
    what="As ceer_paper, of PyTorch's operators.",
)
