"""Steps of scenarios: of one GPU from its operators, of several with what they exchange.

Works of a step are timed on all boards at once; a step of one GPU is two queues (`queues`), of
several `parallel_steps`, over links and networks as the catalogue of node types rates them.
"""

from collections import OrderedDict, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from models.gpu_step.channels_last import in_channels_last
from models.gpu_step.collectives import Topology
from models.gpu_step.columns import Vector
from models.gpu_step.dataflow import breaking_calls
from models.gpu_step.device import Device, boards
from models.gpu_step.faults import Fault, without_node
from models.gpu_step.fusion import compiled
from models.gpu_step.host_time import HostClasses
from models.gpu_step.judged_steps import kind_of_step, simulated
from models.gpu_step.layout import Blocks, Layout, blocks_of, divided
from models.gpu_step.memory import Memory, peak_memory
from models.gpu_step.operators import HALF, Work
from models.gpu_step.own_times import OwnTimes
from models.gpu_step.parallel_steps import AloneStep, Parallel, StepForecast, together
from models.gpu_step.requirements import gpu_of, node_type_of
from models.gpu_step.step import StepWork, step_work
from models.gpu_step.timed_collectives import rated, tcp_bps
from models.gpu_step.timed_kinds import TimedKinds, kind_of, timed_shares
from models.system import NotCovered
from networks.gpu_steps import GpuStep, StepKey, gpu_steps, step_precision
from networks.own_model import MOST_UNKNOWN
from warehouse.records import Scenario, TrainingWorkload

_Key = tuple[TrainingWorkload, StepKey, Layout]
_COSTLIEST = 10
_KEPT_WORKS = 20_000
"""Whose times on all boards are kept."""
_KEPT = 256
"""Works of steps that are kept, with their times on all boards: 0.2 MB each."""


@dataclass(frozen=True)
class TimedWork:
    """Works of a step, microseconds of each on each board, and which of them nobody timed.

    `alone` has the steps of one GPU that were forecast, by node type; `others` the same step with
    all activations kept, and without torch.compile, where somebody asked.
    """

    work: StepWork
    us: Vector
    unknown: Vector
    alone: dict[str, AloneStep] = field(default_factory=dict)
    others: dict[str, "TimedWork"] = field(default_factory=dict)

    @cached_property
    def kind(self) -> str:
        """Which past errors are of steps like it."""
        return kind_of_step(self.work)


class StepForecaster:
    """Steps of scenarios as fits tell them; works of the latest are kept, timed on all boards."""

    def __init__(
        self, times: OwnTimes, hosts: HostClasses, timed: TimedKinds, parallel: Parallel
    ) -> None:
        """Take what was fitted, as `models.gpu_step.system.GpuStepModel` does."""
        self._times, self._hosts, self._timed, self._parallel = times, hosts, timed, parallel
        self._known: OrderedDict[_Key, TimedWork] = OrderedDict()
        self._us: dict[Work, Vector] = {}
        self._last: tuple[Scenario, StepForecast] | None = None

    def step(self, scenario: Scenario) -> StepForecast:
        """Return the step of a scenario, and of a GPU of it alone.

        Whoever asks for a forecast asks for its detail next.
        """
        last = self._last  # another thread may ask about another one meanwhile
        if last is None or last[0] != scenario:
            last = self._last = scenario, self._step_of(scenario, self._parallel)
        return last[1]

    def slower(self, scenario: Scenario) -> StepForecast:
        """Return the step with collectives as slow as one in twenty is."""
        return self._step_of(scenario, self._parallel.slower)

    def _step_of(self, scenario: Scenario, parallel: Parallel) -> StepForecast:
        if scenario.strategy.kind == "single":
            of_one = self.alone(scenario)
            return StepForecast(of_one, of_one.step.step_us * 1e-6)
        layout, fault = layout_of(scenario), Fault.of(scenario.what_if)
        links = fault.links(_topology(scenario, parallel.own_bps))
        if fault != Fault() and links.ranks == 1:
            raise NotCovered(f"{scenario.what_if}: of several GPUs; one is all there is")
        usual = self._of_layout(scenario, layout, links, parallel)
        if not fault.is_lost:
            return usual
        left, links_left = without_node(layout, links)
        longer = layout.replicas / left.replicas
        after = self._of_layout(scenario, left, links_left, parallel, longer)
        return replace(after, step_s=(usual.step_s + after.step_s) / 2)

    def _of_layout(
        self,
        scenario: Scenario,
        layout: Layout,
        links: Topology,
        parallel: Parallel,
        longer: float = 1.0,
    ) -> StepForecast:
        """Return the step of a layout, with passes so many times as long."""
        of_one, strategy = self.alone(scenario), scenario.strategy
        slowed = whole = Fault.of(scenario.what_if).slowed(of_one)
        if layout.stages > 1:
            one = strategy.model_copy(update={"pipeline_parallel": 1, "virtual_stages": 1})
            whole = self.alone(scenario.model_copy(update={"strategy": one}))
            whole = whole.longer_by(slowed, of_one)
        known = scenario.workload.accumulate
        return together(
            slowed.of_passes(longer * layout.micro_batches, known),
            whole.of_passes(longer * layout.micro_batches, known),
            trace_of(scenario),
            _blocks(key_of(scenario)) if layout.is_divided else None,
            layout,
            scenario.workload.precision,
            links,
            parallel,
        )

    def roughly_s(self, scenario: Scenario, layout: Layout, nodes: int) -> float | None:
        """Return seconds of a step of another layout with as many tensor ranks and stages.

        Passes of more micro batches are as many times as long. None: there is no room.

        Raises:
            NotCovered: it cannot be divided so.
        """
        if not memory_of(scenario, layout=layout).fits(gpu_of(scenario)):
            return None
        links = replace(_topology(scenario, self._parallel.own_bps), nodes=nodes)
        links = Fault.of(scenario.what_if).links(links)
        return self._of_layout(scenario, layout, links, self._parallel).step_s

    def alone(self, scenario: Scenario) -> AloneStep:
        """Return the step of one GPU; times of works on all boards are forecast at once."""
        timed, name = self.work(scenario), node_type_of(scenario)
        if name not in timed.alone:
            _refuse_dtypes(timed.work, gpu_of(scenario), scenario.workload.dnn)
            us = timed.us[boards().index(gpu_of(scenario))]
            spent = us * timed.work.calls
            total = float(spent.sum())
            timed.alone[name] = replace(
                AloneStep.of(timed.work, us, self._hosts.of_node(name)[0]),
                unknown_share=float(spent @ timed.unknown) / total if total else 0.0,
                costliest=_costliest(timed.work, spent),
                timed_on=timed_shares(
                    self._timed,
                    gpu_of(scenario).name,
                    zip(map(kind_of, timed.work.works), spent, strict=True),
                ),
            )
        return timed.alone[name]

    def work(self, scenario: Scenario) -> TimedWork:
        """Return the works of a step, timed.

        Raises:
            NotCovered: operators of unknown work may take much of it.
        """
        load, part = scenario.workload, layout_of(scenario).part
        key = load, key_of(scenario), part
        timed = self._known.get(key)
        if timed is None:
            timed = self._on_boards(_work(trace_of(scenario), load))
            _refuse_unknown(timed.work, timed.us[boards().index(gpu_of(scenario))], load.dnn)
            self._known[key] = timed
            if len(self._known) > _KEPT:
                self._known.popitem(last=False)
        return timed

    def _on_boards(self, work: StepWork) -> TimedWork:
        """Return a step's works; layouts of a network have most of them in common."""
        unknown = np.array([not self._times.knows(operator) for operator in work.works], float)
        if len(known := self._us) > _KEPT_WORKS:
            known = self._us = {}
        if new := [each for each in dict.fromkeys(work.works) if each not in known]:
            known.update(zip(new, self._times.us(new, boards()).T, strict=True))
        return TimedWork(work, np.array([known[each] for each in work.works]).T, unknown)

    def _other(
        self, scenario: Scenario, what: str, trace: GpuStep, load: TrainingWorkload
    ) -> TimedWork:
        others = self.work(scenario).others
        if what not in others:
            others[what] = self._on_boards(_work(trace, load))
        return others[what]

    def _kept(self, scenario: Scenario) -> TimedWork | None:
        trace = trace_of(scenario).kept
        if trace is None:
            return None
        return self._other(scenario, "kept", trace, scenario.workload)

    def model_flops(self, scenario: Scenario) -> Mapping[str, float]:
        """Return operations of products by type, without those that are computed again.

        What is computed again is no work of the model: PaLM (Chowdhery et al., 2022), appendix B.
        """
        return (self._kept(scenario) or self.work(scenario)).work.flops_by_dtype

    def kept(self, scenario: Scenario) -> Mapping[str, Any] | None:
        """Return what a step of one GPU would be with all activations kept; None: they are."""
        kept, trace = self._kept(scenario), trace_of(scenario).kept
        return None if kept is None else self._beside(scenario, kept, trace)

    def eager(self, scenario: Scenario) -> Mapping[str, Any] | None:
        """Return what a step of one GPU would be without torch.compile; None: it is."""
        load = scenario.workload.model_copy(update={"compiled": False})
        if load == scenario.workload:
            return None
        trace = trace_of(scenario, is_compiled=False)
        eager = self._other(scenario, "eager", trace, load)
        as_run, as_traced = self.work(scenario).work, eager.work
        return {
            **self._beside(scenario, eager, trace),
            "launches": float(as_traced.calls[as_traced.on_gpu].sum()),
            "compiled_launches": float(as_run.calls[as_run.on_gpu].sum()),
            "graph_breaks": breaking_calls(traced(key_of(scenario))),
        }

    def _beside(
        self, scenario: Scenario, other: TimedWork, trace: GpuStep | None
    ) -> Mapping[str, Any]:
        """Return memory of another step of one GPU, and the share by which this one is longer."""
        device = gpu_of(scenario)
        host, _ = self._hosts.of_node(node_type_of(scenario))
        step = simulated(other.work, other.us[boards().index(device)], host)
        memory = memory_of(scenario, trace)
        return {
            "needed_bytes": memory.needed_bytes,
            "fits": memory.fits(device),
            "longer": self.alone(scenario).step.step_us / step.step_us - 1,
        }


def _work(step: GpuStep, load: TrainingWorkload) -> StepWork:
    replayed = load.compiled == "reduce-overhead"
    work = step_work(step, load.optimizer, load.precision, load.accumulate, replayed=replayed)
    return in_channels_last(work) if load.memory_format == "channels_last" else work


def _refuse_dtypes(work: StepWork, device: Device, dnn: str) -> None:
    """Refuse products in a half precision that a GPU has no matrix units for.

    Raises:
        NotCovered: naming it.
    """
    for dtype in work.flops_by_dtype:
        if dtype in HALF and dtype not in device.peak:
            raise NotCovered(f"{dnn}: it has products in {dtype}; {device.without_units(dtype)}")


def _refuse_unknown(work: StepWork, us: Vector, dnn: str) -> None:
    """Refuse a step whose operators of unknown work may take much of it.

    Raises:
        NotCovered: naming them.
    """
    unknown = np.array([operator.kind == "other" for operator in work.works])
    spent = us * work.calls
    if unknown.any() and (most := float(spent @ unknown) / float(spent.sum())) > MOST_UNKNOWN:
        some = (operator.name for operator in work.works if operator.kind == "other")
        raise NotCovered(
            f"{dnn}: operators of which nobody knows how much work they are may take up to "
            f"{100 * most:.0f} % of a step: {', '.join(dict.fromkeys(some))}; compose them of "
            "PyTorch's, or leave them out"
        )


def _costliest(work: StepWork, spent_us: Vector) -> list[dict[str, Any]]:
    by_name: dict[str, Vector] = defaultdict(lambda: np.zeros(4))
    for operator, us, calls in zip(work.works, spent_us, work.calls, strict=True):
        many = calls * operator.repeats
        by_name[operator.name] += (us, calls, many * operator.flops, many * operator.bytes)
    most = sorted(by_name.items(), key=lambda item: -item[1][0])[:_COSTLIEST]
    return [
        {"operator": name, "calls": int(calls), "gpu_s": us * 1e-6, "flops": flops, "bytes": moved}
        for name, (us, calls, flops, moved) in ((name, all_.tolist()) for name, all_ in most)
    ]


def _topology(scenario: Scenario, own_bps: Mapping[str, float]) -> Topology:
    """Return the links of a scenario's GPUs; the network is as fast as it says, or as measured."""
    name, strategy = node_type_of(scenario), scenario.strategy
    links = rated(name, strategy.devices_per_node, strategy.workers)
    asked_bps = scenario.link_mbps * 1e6 / 8 if scenario.link_mbps else links.network_bps
    if links.nodes > 1:
        asked_bps = tcp_bps(name, asked_bps, links.nodes, own_bps)
    return replace(links, network_bps=asked_bps)


def key_of(scenario: Scenario) -> StepKey:
    load = scenario.workload
    precision = step_precision(load.precision, scenario.strategy.casts_once)
    return StepKey(load.dnn, load.batch_size, load.image_size, precision)


def layout_of(scenario: Scenario) -> Layout:
    """Return which GPUs divide what."""
    return Layout.of(scenario.strategy, scenario.workload.accumulate)


def trace_of(scenario: Scenario, is_compiled: bool | None = None) -> GpuStep:
    """Return a step as a GPU runs it: compiled, if it is, and its part, if it is divided.

    `is_compiled`: None: as the scenario says.

    Raises:
        NotCovered: it cannot be traced, or divided.
    """
    key, part = key_of(scenario), layout_of(scenario).part
    if is_compiled is None:
        is_compiled = bool(scenario.workload.compiled)
    if part.is_divided:
        return _divided(key, part, is_compiled)
    return _compiled(key) if is_compiled else traced(key)


@lru_cache(maxsize=256)
def _divided(key: StepKey, layout: Layout, is_compiled: bool) -> GpuStep:
    # Layers are told by calls of the eager step.
    return divided(_compiled(key) if is_compiled else traced(key), layout, _blocks(key))


@lru_cache(maxsize=64)
def _blocks(key: StepKey) -> Blocks:
    return blocks_of(traced(key))


def traced(key: StepKey) -> GpuStep:
    """Return an eager step.

    Raises:
        NotCovered: it cannot be traced.
    """
    try:
        return gpu_steps([key])[key]
    except (ValueError, RuntimeError) as error:
        raise NotCovered(str(error)) from error


@lru_cache(maxsize=64)
def _compiled(key: StepKey) -> GpuStep:
    try:
        return compiled(traced(key))
    except ValueError as error:
        raise NotCovered(f"{key.dnn}: {error}") from error


def memory_of(
    scenario: Scenario, trace: GpuStep | None = None, layout: Layout | None = None
) -> Memory:
    """Return the most memory of a step; of another trace, or layout of as many ranks and stages."""
    load, kind = scenario.workload, scenario.strategy.kind
    step, layout = trace or trace_of(scenario), layout or layout_of(scenario)
    activation_bytes = None
    if layout.is_divided:
        whole = traced(key_of(scenario))
        keeps = step.kept is None and whole.kept is not None
        network = blocks_of(whole.kept) if keeps and whole.kept else _blocks(key_of(scenario))
        activation_bytes = layout.activation_bytes(network)
    return peak_memory(
        step,
        load.optimizer,
        load.precision,
        accumulate=load.accumulate,
        distributed=kind == "all_reduce" and not layout.is_divided,
        shards=layout.shards,
        zero=layout.zero if layout.is_divided or layout.zero else 3,
        activation_bytes=activation_bytes,
    )


def prepare(scenarios: Sequence[Scenario]) -> None:
    """Have steps traced at once, as far as they can be."""
    try:
        gpu_steps([key_of(scenario) for scenario in scenarios])
    except (ValueError, RuntimeError):
        return
