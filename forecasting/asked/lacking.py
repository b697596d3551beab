"""What has to be measured before a forecast can be made, and how long that takes."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from profilers.links import link_in_words
from profilers.probe import Asked
from profilers.probes import PROBES
from studies.needs import expected_s, starts
from warehouse.asks import Ask
from warehouse.records import BadInput, Scenario, on_images


@dataclass(frozen=True)
class Lacking:
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


def lacking(asks: Sequence[Ask]) -> tuple[Lacking, ...]:
    """Return what to measure for asks that no run meets, each once."""
    return tuple(dict.fromkeys(_lacking(ask) for ask in asks))


def minutes(some: Iterable[Lacking]) -> float | None:
    """Return about how many minutes all of them take, None if that is not known of one."""
    total = 0.0
    for one in dict.fromkeys(some):
        if one.minutes is None:
            return None
        total += one.minutes
    return total


def _lacking(ask: Ask) -> Lacking:
    return Lacking(ask.probe, _of(ask), _minutes(ask), ask.whose == "train")


def _of(ask: Ask) -> str:
    scenario = ask.scenario
    load = scenario.workload
    if ask.whose == "train":
        return f"other networks of {load.framework}"
    types = " + ".join(dict.fromkeys(one.node_type for one in scenario.worker_groups))
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
    servers = [one for one in scenario.nodes if one.role == "server"]
    with_servers = "".join(f", {one.count} {one.node_type}" for one in servers)
    speed = "" if scenario.link_mbps is None else f", {link_in_words(scenario.link_mbps)}"
    return f"{what} b{load.batch_size} on {types}{with_servers}{speed}"


def _minutes(ask: Ask) -> float | None:
    probe = PROBES[ask.probe]
    try:
        needs = list(probe.needs(_asked(ask), probe.settings()))
    except BadInput:
        return None
    if not needs:
        return None
    return sum(expected_s(start) for start in starts(needs)) / 60


def _asked(ask: Ask) -> Asked:
    """Return a study's question that makes its probe list the runs which meet an ask.

    How long runs about other networks take is told by those about the one that was asked for.
    """
    one: tuple[Scenario, ...] = (ask.scenario,)
    if ask.whose == "train":
        return Asked(train=one)
    return Asked(own=one) if ask.whose == "own" else Asked(cluster=one)
