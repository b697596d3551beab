"""What has to be measured before a forecast can be made, and how long that takes."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from profilers.links.probe import link_in_words
from profilers.probe import RequestedScenarios
from profilers.probes import PROBES
from studies.planned_runs import expected_s, group_by_start
from warehouse.inputs import Input
from warehouse.records import BadInput, Scenario, on_images


@dataclass(frozen=True)
class MissingRuns:
    """Runs of a probe that nobody has measured.

    Attributes:
        probe: its name.
        of: of what, in words.
        minutes: that they take with the probe's own settings, about; None: not known.
        of_train: they are about other scenarios than the one that was asked for.
    """

    probe: str
    of: str
    minutes: float | None
    of_train: bool = False

    @property
    def text(self) -> str:
        """The probe, and of what."""
        return f"{self.probe} of {self.of}"


def find_missing_runs(asks: Sequence[Input]) -> tuple[MissingRuns, ...]:
    """Return what to measure for asks that no run meets, each once."""
    return tuple(dict.fromkeys(_lacking(ask) for ask in asks))


def total_minutes(some: Iterable[MissingRuns]) -> float | None:
    """Return about how many minutes all of them take, None if that is not known of one."""
    total = 0.0
    for missing in dict.fromkeys(some):
        if missing.minutes is None:
            return None
        total += missing.minutes
    return total


def _lacking(ask: Input) -> MissingRuns:
    if ask.whose == "public":
        return MissingRuns("public measurements", "GPUs: `stepcast load data/public`", None)
    return MissingRuns(ask.probe, _of(ask), _minutes(ask), ask.whose == "train")


def _of(ask: Input) -> str:
    scenario = ask.scenario
    load = scenario.workload
    if ask.whose == "train":
        return f"other networks of {', '.join(filter(None, (load.framework, load.recipe)))}"
    types = " + ".join(
        dict.fromkeys(worker_group.node_type for worker_group in scenario.worker_groups)
    )
    if ask.whose == "cluster":
        speed = link_in_words(scenario.link_mbps)
        if ask.any_link:
            return f"{types} nodes"
        if ask.probe == "links":
            return f"{types} nodes" if scenario.link_mbps is None else speed
        return f"{types} on {speed} links"
    what = on_images(load.dnn, load.image_size)
    if ask.any_batch:
        return f"{what} on {types}"
    servers = [node for node in scenario.nodes if node.role == "server"]
    with_servers = "".join(f", {server.count} {server.node_type}" for server in servers)
    speed = "" if scenario.link_mbps is None else f", {link_in_words(scenario.link_mbps)}"
    return f"{what} b{load.batch_size} on {types}{with_servers}{speed}"


def _minutes(ask: Input) -> float | None:
    probe = PROBES[ask.probe]
    try:
        needs = list(probe.needs(_asked(ask), probe.settings()))
    except BadInput:
        return None
    if not needs:
        return None
    return sum(expected_s(start) for start in group_by_start(needs)) / 60


def _asked(ask: Input) -> RequestedScenarios:
    """Return a study's question that makes its probe list the runs which meet an ask.

    How long runs about other networks take is told by those about the one that was asked for.
    """
    alone: tuple[Scenario, ...] = (ask.scenario,)
    if ask.whose == "train":
        return RequestedScenarios(train=alone)
    return (
        RequestedScenarios(own=alone) if ask.whose == "own" else RequestedScenarios(cluster=alone)
    )
