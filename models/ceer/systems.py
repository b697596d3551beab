"""Ceer as systems: of each framework, ours and as published."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial

from models.ceer import fit
from models.ceer.fit import PROBES, FittedCeer
from models.ceer.parameters import PAPER
from models.ceer.predictor import Ceer
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
    return FittedCeer(Ceer.from_json(parameters), framework=framework)


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


CEER = System(
    name="ceer",
    version="3",
    what="Steps from operations of other networks, with an interval (Hafeez and Gandhi, Ceer).",
    source="Hafeez, Gandhi, Ceer, section IV",
    tables=("run", "scenario", "operation", "operation_shape", "operation_time", "sample", "dnn"),
    inputs=partial(_requires, "tensorflow"),
    fit=partial(fit.fit, "tensorflow", None),
    load=partial(_load, "tensorflow"),
    pooled=True,
    beside="ceer_paper",
    in_words="Ceer",
    prepare=partial(_prepare, "tensorflow"),
    check=partial(_check, True),
)
CEER_PAPER = replace(
    CEER,
    beside="",
    in_words="Ceer as published",
    name="ceer_paper",
    version="1",
    what="Baseline: Ceer as published, with medians of light operations and S by parameters alone.",
    fit=partial(fit.fit, "tensorflow", PAPER),
    check=partial(_check, False),
)
CEER_PYTORCH = replace(
    CEER,
    name="ceer_pytorch",
    beside="ceer_pytorch_paper",
    version="4",
    what="As ceer, of PyTorch's operators.",
    inputs=partial(_requires, "pytorch"),
    prepare=partial(_prepare, "pytorch"),
    fit=partial(fit.fit, "pytorch", None),
    load=partial(_load, "pytorch"),
)
CEER_PYTORCH_PAPER = replace(
    CEER_PYTORCH,
    beside="",
    in_words="Ceer as published",
    name="ceer_pytorch_paper",
    version="1",
    what="As ceer_paper, of PyTorch's operators.",
    fit=partial(fit.fit, "pytorch", PAPER),
    check=partial(_check, False),
)
