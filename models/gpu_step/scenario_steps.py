"""Steps of scenarios: of one GPU from its operators, of several with what they exchange.

Works of a step are timed on all boards at once; a step of one GPU is two queues (`queues`), of
several it has collectives beside its passes (`data_parallel`), over links and networks as the
catalogue of node types rates them (`collectives`).
"""

from collections import OrderedDict, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache
from typing import Any, Self

import numpy as np

from models.gpu_step import collectives, scaling
from models.gpu_step.channels_last import in_channels_last
from models.gpu_step.collectives import Collectives, Topology
from models.gpu_step.columns import Vector
from models.gpu_step.data_parallel import (
    Exchange,
    Interference,
    Passes,
    distributed_s,
    sharded_s,
    straggling_share,
)
from models.gpu_step.dataflow import breaking_calls
from models.gpu_step.device import Device, boards, device_of_node
from models.gpu_step.fusion import compiled
from models.gpu_step.host_time import HostClasses
from models.gpu_step.judged_steps import PastErrors, simulated
from models.gpu_step.measurements import Measurements
from models.gpu_step.memory import Memory, peak_memory
from models.gpu_step.operators import HALF
from models.gpu_step.own_times import OwnTimes
from models.gpu_step.queues import Step
from models.gpu_step.step import StepWork, step_precision, step_work
from models.gpu_step.timed_kinds import TimedKinds, TimedShare, kind_of, timed_shares
from models.system import NotCovered
from networks.gpu_steps import GpuStep, StepKey, gpu_steps
from networks.own_model import MOST_UNKNOWN
from profilers.clusters.node_types import node_types
from warehouse.records import Scenario, TrainingWorkload

_COSTLIEST = 10
_KEPT = 256
"""Works of steps that are kept, with their times on all boards: 0.2 MB each."""


@dataclass(frozen=True)
class Parallel:
    """What several GPUs need beyond a step of each; past errors `within` a node, `across` nodes.

    `most_gpus` is of how many together scaling was judged at most.
    """

    collectives: Collectives
    interference: Interference
    past: Mapping[str, PastErrors]
    most_gpus: int = 1

    def fields(self) -> dict[str, Any]:
        """Return the fit for JSON."""
        return asdict(self) | {"collectives": self.collectives.fields()}

    @classmethod
    def of(cls, fields: Mapping[str, Any]) -> Self:
        """Return the fit of JSON."""
        return cls(
            **{
                **fields,
                "collectives": Collectives.of(fields["collectives"]),
                "interference": Interference(**fields["interference"]),
                "past": {name: PastErrors(**errors) for name, errors in fields["past"].items()},
            }
        )

    @classmethod
    def fitted(cls, measured: Measurements) -> Self:
        """Return what public measurements tell; widths are of sources that were left out."""
        timed = measured.collectives
        known = collectives.fit(timed.filter(collective="all_reduce") if len(timed) else timed)
        judged_scalings = scaling.judged_sources(measured.scalings, known)
        past = {
            where: PastErrors.of(
                [
                    judged.error
                    for judged in judged_scalings
                    if (judged.scaling.more.nodes > 1) == is_across
                ]
            )
            for where, is_across in (("within", False), ("across", True))
        }
        most_gpus = max((judged.scaling.more.ranks for judged in judged_scalings), default=1)
        return cls(known, scaling.fit_interference(measured.scalings, known), past, most_gpus)


@dataclass(frozen=True)
class AloneStep:
    """A step of one GPU of a node type, whatever else trains."""

    step: Step
    unknown_share: float
    optimizer_us: float
    optimizer_s: float
    costliest: Sequence[Mapping[str, Any]]
    timed_on: Sequence[TimedShare]

    def timed_share(self, device: Device) -> float:
        """Return the share of the GPU's time of operators whose kind was timed on a device."""
        return sum(each.share for each in self.timed_on if each.device == device.name)


@dataclass(frozen=True)
class StepForecast:
    """A step of a GPU alone, and of all together; seconds of what is exchanged, None: nothing."""

    alone: Step
    unknown_share: float
    step_s: float
    optimizer_us: float
    exchange_s: float | None = None
    straggling_share: float = 0.0

    @property
    def binds(self) -> str:
        """`gpu`, `host`, or `exchange` where most of a step is not the passes of a GPU alone."""
        if self.exchange_s is not None and self.step_s > 2e-6 * self.alone.step_us:
            return "exchange"
        return self.alone.binds


@dataclass(frozen=True)
class TimedWork:
    """Works of a step, microseconds of each on each board, and which of them nobody timed.

    `kept` is the same step with all activations kept; None: this one keeps them. `eager` is the
    same step without torch.compile; None: this one is. `alone` has the steps of one GPU that were
    forecast, by node type.
    """

    work: StepWork
    us: Vector
    unknown: Vector
    kept: "TimedWork | None" = None
    eager: "TimedWork | None" = None
    alone: dict[str, AloneStep] = field(default_factory=dict)


class StepForecaster:
    """Steps of scenarios as fits tell them; works of the latest are kept, timed on all boards."""

    def __init__(
        self,
        times: OwnTimes,
        hosts: HostClasses,
        timed: TimedKinds,
        parallel: Parallel,
    ) -> None:
        """Take what was fitted, as `models.gpu_step.system.GpuStepModel` does."""
        self._times, self._hosts, self._timed, self._parallel = times, hosts, timed, parallel
        self._known: OrderedDict[tuple[TrainingWorkload, StepKey], TimedWork] = OrderedDict()
        self._last: tuple[Scenario, StepForecast] | None = None

    def step(self, scenario: Scenario) -> StepForecast:
        """Return the step of a scenario, and of a GPU of it alone.

        Whoever asks for a forecast asks for its detail next.
        """
        if self._last is None or self._last[0] != scenario:
            self._last = scenario, self._step_of(scenario)
        return self._last[1]

    def _step_of(self, scenario: Scenario) -> StepForecast:
        of_one = self.alone(scenario)
        alone, share, optimizer_us = of_one.step, of_one.unknown_share, of_one.optimizer_us
        alone_s = alone.step_us * 1e-6
        if scenario.strategy.kind == "single":
            return StepForecast(alone, share, alone_s, optimizer_us)
        load, optimizer_s = scenario.workload, of_one.optimizer_s
        accumulate = load.accumulate
        passes = Passes((alone_s - optimizer_s) / accumulate, optimizer_s, accumulate)
        is_sharded = scenario.strategy.kind == "sharded"
        trace = trace_of(scenario)
        # Mixed precision of shards casts what is exchanged.
        dtype = load.precision if is_sharded and load.precision in HALF else None
        trained, frozen = (
            tuple(float(replace(each, dtype=dtype or each.dtype).bytes) for each in held)
            for held in (trace.parameters, trace.frozen)
        )
        exchange = Exchange(
            trained, self._parallel.collectives, _topology(scenario), frozen_bytes=frozen
        )
        interference = self._parallel.interference
        if is_sharded:
            exchange_s = accumulate * (2 * sum(exchange.gathers_s) + sum(exchange.scatters_s))
            step_s = sharded_s(passes, exchange, interference)
        else:
            exchange_s = sum(reduction_s for _, reduction_s in exchange.reductions)
            step_s = distributed_s(passes, exchange, interference)
        slower = straggling_share(exchange, interference)
        return StepForecast(alone, share, step_s, optimizer_us, exchange_s, slower)

    def alone(self, scenario: Scenario) -> AloneStep:
        """Return the step of one GPU; times of works on all boards are forecast at once."""
        timed, name = self.work(scenario), node_type_of(scenario)
        if name not in timed.alone:
            _refuse_dtypes(timed.work, gpu_of(scenario), scenario.workload.dnn)
            us = timed.us[boards().index(gpu_of(scenario))]
            spent = us * timed.work.calls
            total = float(spent.sum())
            step = simulated(timed.work, us, self._hosts.of_node(name)[0])
            optimizer_us = float(spent[timed.work.first_of_optimizer :].sum())
            timed.alone[name] = AloneStep(
                step=step,
                unknown_share=float(spent @ timed.unknown) / total if total else 0.0,
                optimizer_us=optimizer_us,
                optimizer_s=step.step_us * 1e-6 * optimizer_us / total if total else 0.0,
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
        load, key = scenario.workload, (scenario.workload, key_of(scenario))
        timed = self._known.get(key)
        if timed is None:
            trace = trace_of(scenario)
            work = _work(trace, load)
            _refuse_unknown(work, self._times, gpu_of(scenario), load.dnn)
            kept = None if trace.kept is None else self._on_boards(_work(trace.kept, load))
            eager = None
            if load.compiled:
                as_eager = load.model_copy(update={"compiled": False})
                eager = self._on_boards(_work(traced(key_of(scenario)), as_eager))
            timed = replace(self._on_boards(work), kept=kept, eager=eager)
            self._known[key] = timed
            if len(self._known) > _KEPT:
                self._known.popitem(last=False)
        return timed

    def _on_boards(self, work: StepWork) -> TimedWork:
        unknown = np.array([not self._times.knows(operator) for operator in work.works], float)
        return TimedWork(work, self._times.us(work.works, boards()), unknown)

    def model_flops(self, scenario: Scenario) -> Mapping[str, float]:
        """Return operations of products by type, without those that are computed again.

        What is computed again is no work of the model: PaLM (Chowdhery et al., 2022), appendix B.
        """
        timed = self.work(scenario)
        return (timed.kept or timed).work.flops_by_dtype

    def kept(self, scenario: Scenario) -> Mapping[str, Any] | None:
        """Return what a step of one GPU would be with all activations kept; None: they are."""
        kept, trace = self.work(scenario).kept, trace_of(scenario).kept
        return None if kept is None else self._beside(scenario, kept, trace)

    def eager(self, scenario: Scenario) -> Mapping[str, Any] | None:
        """Return what a step of one GPU would be without torch.compile; None: it is."""
        timed = self.work(scenario)
        if (eager := timed.eager) is None:
            return None
        as_run, as_traced, trace = timed.work, eager.work, traced(key_of(scenario))
        return {
            **self._beside(scenario, eager, trace),
            "launches": float(as_traced.calls[as_traced.on_gpu].sum()),
            "compiled_launches": float(as_run.calls[as_run.on_gpu].sum()),
            "graph_breaks": breaking_calls(trace),
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


def _refuse_unknown(work: StepWork, times: OwnTimes, device: Device, dnn: str) -> None:
    """Refuse a step whose operators of unknown work may take much of it.

    Raises:
        NotCovered: naming them.
    """
    unknown = np.array([operator.kind == "other" for operator in work.works])
    if not unknown.any():
        return
    spent = times.us(work.works, [device])[0] * work.calls
    most = float(spent @ unknown) / float(spent.sum())
    if most > MOST_UNKNOWN:
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


def free_batch_size(forecast: StepForecast, batch_size: int) -> int | None:
    """Return to which batch at least the host takes longer; None: it does not bind.

    What the GPU takes grows with the batch but for the optimizer, and by less than that.
    """
    step = forecast.alone
    if step.binds != "host":
        return None
    fixed_us = min(forecast.optimizer_us, step.host_us)
    return int(batch_size * (step.host_us - fixed_us) / max(step.gpu_us - fixed_us, 1.0))


def node_type_of(scenario: Scenario) -> str:
    return scenario.nodes[0].node_type


def ranks_of(scenario: Scenario) -> int:
    return scenario.strategy.workers * scenario.strategy.devices_per_node


def reach_of(scenario: Scenario) -> str | None:
    """Return whether GPUs exchange `within` a node or `across` nodes; None: there is one."""
    if ranks_of(scenario) == 1:
        return None
    return "across" if scenario.strategy.workers > 1 else "within"


def _topology(scenario: Scenario) -> Topology:
    """Return the links of a scenario's GPUs; the network is as fast as it says, else as rated."""
    kind, device = node_types()[node_type_of(scenario)], gpu_of(scenario)
    network_bps = (scenario.link_mbps or kind.bandwidth_mbps) * 1e6 / 8
    is_rented = node_type_of(scenario).partition(".")[0] in device.instances
    if is_rented and not kind.efa:
        network_bps = min(network_bps, scaling.TCP_BPS)
    strategy = scenario.strategy
    link_bps = device.link_bps(kind.gpu_link)
    return Topology(strategy.devices_per_node, strategy.workers, link_bps, network_bps)


def gpu_of(scenario: Scenario) -> Device:
    device = device_of_node(node_type_of(scenario))
    assert device is not None  # `_inputs` refuses others.
    return device


def key_of(scenario: Scenario) -> StepKey:
    load = scenario.workload
    precision = step_precision(load.precision, scenario.strategy.kind)
    return StepKey(load.dnn, load.batch_size, load.image_size, precision)


def trace_of(scenario: Scenario) -> GpuStep:
    """Return a step as it is run: compiled, if it is.

    Raises:
        NotCovered: it cannot be traced.
    """
    key = key_of(scenario)
    return _compiled(key) if scenario.workload.compiled else traced(key)


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


def memory_of(scenario: Scenario, trace: GpuStep | None = None) -> Memory:
    """Return the most memory of a step, as it is or as another trace has it."""
    load, kind = scenario.workload, scenario.strategy.kind
    return peak_memory(
        trace or trace_of(scenario),
        load.optimizer,
        load.precision,
        accumulate=load.accumulate,
        distributed=kind == "all_reduce",
        shards=ranks_of(scenario) if kind == "sharded" else 1,
    )


def prepare(scenarios: Sequence[Scenario]) -> None:
    """Have steps traced at once, as far as they can be."""
    try:
        gpu_steps([key_of(scenario) for scenario in scenarios])
    except (ValueError, RuntimeError):
        return
