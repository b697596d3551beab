"""What a forecast of a scenario rests on, as data that systems make and studies meet."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any, Literal, Protocol

from warehouse.records import Scenario

RequirementScope = Literal["own", "train", "cluster", "public"]


@dataclass(frozen=True)
class Requirement:
    """Runs of a probe that a forecast rests on.

    Attributes:
        probe: as its runs have landed.
        scope: `own`: of the scenario that is forecast, as profiled; `train`: of all scenarios that
            fits may see; `cluster`: of the nodes and links that it trains on, and is profiled on;
            `public`: what others measured and `stepcast load public` brings.
        scenario: own: what is profiled. Else the scenario that is forecast.
        optional: a study without such runs does too.
        on_its_link: a profile on a link of another speed does not do.
        any_batch: the profile times several batch sizes, and whichever it names does.
        any_training: of train scenarios, those that train in another way do too (`training`).
        any_link: it is about nodes alone, and links of any speed do.
        switched_on: a setting of the probe without which its run does not do.
    """

    probe: str
    scope: RequirementScope
    scenario: Scenario
    optional: bool = False
    on_its_link: bool = False
    any_batch: bool = False
    any_training: bool = False
    any_link: bool = False
    switched_on: str | None = None


@dataclass(frozen=True)
class Refusal:
    """Why a system says nothing of a scenario.

    `foreign`: the system is about other training altogether, so that reports need not mention it.
    """

    reason: str
    foreign: bool = False


@dataclass(frozen=True)
class Subject:
    """What a run of a probe is about: a scenario, or nodes on links of a speed.

    Runs about nodes are told apart by `config`; without a speed they are about nodes alone. There
    `worker` names the types of their workers, in the order in which they take turns:
    "emu.avx512.s15 + emu.sse41.s15".
    """

    probe: str
    scenario: Scenario | None
    link_mbps: float | None
    config: Mapping[str, str | int] = field(default_factory=dict, hash=False)

    @cached_property
    def worker_types(self) -> frozenset[str]:
        """The node types of its workers; none where any do."""
        if self.scenario is not None:
            return frozenset(group.node_type for group in self.scenario.worker_groups)
        return frozenset(str(self.config["worker"]).split(" + ") if "worker" in self.config else ())


class PlannedSubject(Protocol):
    """A run that is planned: what it is about, and what its probe will be asked for."""

    @property
    def subject(self) -> Subject:
        """What it is about."""

    @property
    def settings(self) -> Mapping[str, Any]:
        """What its probe will be asked for."""


def meets_requirement(subject: Subject, requirement: Requirement) -> bool:
    """Tell whether a run about a subject is what is asked for.

    Of what is asked of `train` scenarios, any run of the probe is that trains in the same way; of
    public measurements, any.
    """
    if subject.probe != requirement.probe:
        return False
    scenario = subject.scenario
    if (
        scenario
        and not requirement.any_training
        and scenario.training != requirement.scenario.training
    ):
        return False
    if requirement.scope in ("train", "public"):
        return True
    if requirement.scope == "own":
        if requirement.any_batch and subject.scenario is not None:
            return _with_one_batch(subject.scenario) == _with_one_batch(requirement.scenario)
        return subject.scenario == requirement.scenario
    same_speed = subject.link_mbps == requirement.scenario.link_mbps
    on_such_links = subject.scenario is not None or same_speed or requirement.any_link
    types = {group.node_type for group in requirement.scenario.worker_groups}
    return on_such_links and subject.worker_types <= types


@lru_cache(maxsize=4096)
def _with_one_batch(scenario: Scenario) -> Scenario:
    """Return a scenario without its batch sizes. Cached: a study asks for few, again and again."""
    load = scenario.workload.model_copy(update={"batch_size": 1})
    nodes = tuple(node.model_copy(update={"batch_size": None}) for node in scenario.nodes)
    return scenario.model_copy(update={"workload": load, "nodes": nodes})
