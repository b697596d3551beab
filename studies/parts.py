"""The runs that each round of a study needs: which probe, on what, and who may see it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from studies.asked import SUBJECTS, Settings, asked, differences
from studies.curve import BY_OPERATIONS, Curve, CurveKind
from studies.study import Study
from warehouse.records import Backend, Purpose, Run, Scenario

Probe = Literal[
    "links",
    "contention",
    "allreduce",
    "tf_trace",
    "tf_operations",
    "torch_operations",
    "torch_memory",
    "torch_compute",
    "slowdown",
    "tf_throughput",
    "torch_throughput",
    "tf_sync",
]
Config = Mapping[str, str | int]
MEASURING: Mapping[CurveKind, Probe] = {
    "asynchronous": "tf_throughput",
    "ddp": "torch_throughput",
    "synchronous": "tf_sync",
    "ddp_operations": "torch_throughput",
}
"""The probe that measures curves of a kind with all their workers."""
_TRACING: Mapping[CurveKind, Probe] = {
    "asynchronous": "tf_trace",
    "synchronous": "tf_operations",
    "ddp_operations": "torch_operations",
}
"""The probe that times the operations of one worker."""


@dataclass(frozen=True)
class Part:
    """One run that a round needs: a probe of a cluster, or of a scenario.

    Runs of clusters are told apart by their link and by what is in `config`. `settings` are what
    the study asks of its probe.
    """

    probe: Probe
    curve: Curve
    link_mbps: float | None
    scenario: Scenario | None = None
    purpose: Purpose = "profile"
    config: Config = field(default_factory=dict, hash=False)
    settings: Settings = field(default_factory=dict, compare=False)

    @property
    def name(self) -> str:
        """What progress and plans call it."""
        if self.scenario is not None:
            if self.probe == "torch_memory":
                return f"find the largest batch, {self.scenario.label}"
            if self.probe == "torch_compute" and not self.profiles:
                return f"time held-out batches, {self.scenario.label}"
            verb = "measure" if self.probe in MEASURING.values() else "profile"
            return f"{verb} {self.scenario.label}"
        speed = "unshaped" if self.link_mbps is None else f"{self.link_mbps:g} Mb/s"
        return ", ".join([f"probe {self.probe}", speed, *map(_said, self.config.items())])

    @property
    def profiles(self) -> bool:
        """Whether predictors may see it."""
        return self.purpose == "profile"

    def is_done_by(self, run: Run) -> bool:
        """Tell whether a run is this part, whatever its round and settings."""
        if (run.status, run.probe, run.purpose) != ("ok", self.probe, self.purpose):
            return False
        if self.scenario is not None:
            return run.scenario_id == self.scenario.scenario_id
        expected = {**self.config, "link_mbps": self.link_mbps}
        return all(run.config.get(name) == value for name, value in expected.items())

    def asks_the_same_of(self, run: Run) -> bool:
        """Tell whether a run measured what the study asks for, however precisely.

        A run that does not tell is taken as it is.
        """
        return not SUBJECTS & (differences(run, self.settings) or {}).keys()


def parts(study: Study, backend: Backend) -> tuple[Part, ...]:
    """Return the runs that each round of a study needs, in the order in which they are run."""
    kinds = (_links, _contention, _allreduce, _traces, _memory, _compute, _slowdowns, _training)
    found = [
        replace(part, settings=asked(part.probe, study, profiles=part.profiles))
        for make in kinds
        for part in make(study, backend)
    ]
    return tuple(sorted(found, key=lambda part: part.purpose == "measurement"))


def judged_parts(study: Study, backend: Backend) -> Iterator[Part]:
    """Yield the runs that judge predictions of a metric of whole curves."""
    for part in parts(study, backend):
        if part.probe in MEASURING.values() and not part.profiles:
            yield part


def _links(study: Study, backend: Backend) -> Iterator[Part]:
    """Yield each speed once, with the curve of most workers that uses it."""
    if study.links is None:
        return
    by_speed: dict[float | None, Curve] = {}
    for curve in _by_workers(study):
        by_speed |= dict.fromkeys(curve.link_speeds(backend), curve)
    yield from (Part("links", curve, speed) for speed, curve in by_speed.items())


def _contention(study: Study, backend: Backend) -> Iterator[Part]:
    """Yield each speed and type of workers once, with the curve of most workers that has them."""
    if study.kind != "asynchronous" or study.links is None or study.links.contention_s is None:
        return
    found: dict[tuple[float | None, str], Curve] = {}
    for curve in _by_workers(study):
        for name in curve.worker:
            found |= {(speed, name): curve for speed in curve.link_speeds(backend)}
    for (speed, worker), curve in found.items():
        yield Part("contention", curve, speed, config={"worker": worker})


def _allreduce(study: Study, backend: Backend) -> Iterator[Part]:
    """Yield each world size on each speed and mix of types, devices and links."""
    if study.allreduce is None:
        return
    found: dict[tuple[float | None, str, int], Curve] = {}
    for curve in _by_workers(study):
        key = curve.scenario(1, backend).link_mbps, " + ".join(curve.worker), curve.devices_per_node
        found[key] = curve
    for (speed, worker, devices), curve in found.items():
        for ranks in study.allreduce.world_sizes:
            config: Config = {
                "worker": worker,
                "devices_per_node": devices,
                "world_size": ranks,
            }
            yield Part("allreduce", curve, speed, config=config)


def _traces(study: Study, backend: Backend) -> Iterator[Part]:
    """Yield one trace for all curves that share it: they differ in the speed of their links.

    Where predictors may not see a curve, its trace judges what they say of its operations.
    """
    if study.kind not in _TRACING:
        return
    curves: dict[Scenario, Curve] = {}
    for curve in study.curves:
        for one in curve.as_profiled():
            curves.setdefault(one.profiled(backend), curve)
    for scenario, curve in curves.items():
        probe, purpose = _TRACING[study.kind], _purpose(curve)
        yield Part(probe, curve, scenario.link_mbps, scenario, purpose)


def _memory(study: Study, backend: Backend) -> Iterator[Part]:
    """Yield one search for the largest batch of what has a profile of passes, where asked for."""
    if study.compute is not None and study.compute.largest_up_to is not None:
        for part in _passes(study, backend, study.compute.batch_sizes):
            yield replace(part, probe="torch_memory")


def _compute(study: Study, backend: Backend) -> Iterator[Part]:
    """Yield profiles of passes, and what judges them: other batch sizes of the same."""
    if study.compute is not None:
        yield from _passes(study, backend, study.compute.batch_sizes)
        for part in _passes(study, backend, study.compute.held_out):
            yield replace(part, purpose="measurement")


def _passes(study: Study, backend: Backend, batch_sizes: Sequence[int]) -> Iterator[Part]:
    """Yield one part for all curves that share it: it samples several batch sizes."""
    if not batch_sizes:
        return
    largest = {"batch_size": max(batch_sizes)}
    found: dict[Scenario, Curve] = {}
    for curve in study.curves:
        for one in curve.model_copy(update=largest).of_each_type():
            found.setdefault(one.profiled(backend), curve)
    for scenario, curve in found.items():
        yield Part("torch_compute", curve, None, scenario)


def _slowdowns(study: Study, backend: Backend) -> Iterator[Part]:
    """Yield the slowdown of each fitted network on each type, with as many nodes as train on it.

    Those of any curve count: later rounds, which repeat some scenarios, probe it as the first does.
    """
    if study.compute is None or study.compute.slowdown_trials is None:
        return
    most: dict[str, int] = {}
    for curve in study.curves:
        for name in curve.worker:
            most[name] = max(*curve.workers, most.get(name, 0))
    found: dict[tuple[str, str], Part] = {}
    for curve in study.curves:
        if curve.fitted:
            for one in curve.of_each_type():
                scenario = one.scenario(most[one.worker[0]], backend)
                part = Part("slowdown", curve, scenario.link_mbps, scenario)
                found.setdefault((curve.dnn, one.worker[0]), part)
    yield from found.values()


def _training(study: Study, backend: Backend) -> Iterator[Part]:
    for curve in study.curves:
        purpose: Purpose = "measurement" if curve.is_judged else "profile"
        for scenario in curve.scenarios(backend):
            yield Part(MEASURING[curve.kind], curve, scenario.link_mbps, scenario, purpose)


def _purpose(curve: Curve) -> Purpose:
    return "measurement" if curve.kind in BY_OPERATIONS and curve.is_judged else "profile"


def _by_workers(study: Study) -> list[Curve]:
    return sorted(study.curves, key=lambda curve: max(curve.workers))


def _said(setting: tuple[str, str | int]) -> str:
    name, value = setting
    return str(value) if isinstance(value, str) else f"{name.replace('_', ' ')} {value}"
