"""System `gpu_step`: a training step of GPUs from its operators, and what binds it.

GPU time is the sum of regressions of its operators (`gpu_time`), host time so much for each launch
(`host_time`), of the node type where probe `inventory` measured it, else of the machine with the
H100; the step is two queues (`queues`). Fits rest on public measurements (`data/public`) and data
sheets. Intervals are as wide as past errors were of families of networks that a fit had
not seen, or, on devices that nobody timed, of devices that it had not seen; and wider by the share
of operators that nobody timed.

Several GPUs exchange gradients beside their passes (`data_parallel`), over links and networks as
the catalogue of node types rates them (`collectives`); intervals are wider by how wrong scaling was
of sources that were left out (`scaling`). Errors of families count on boards whose steps were
measured; on others, or where most operators were timed elsewhere (`timed_kinds`), those of devices.
"""

import json
from collections import OrderedDict, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from math import ceil, exp, hypot, log
from statistics import fmean
from types import MappingProxyType
from typing import Any, Self

import numpy as np
import polars as pl

from models.gpu_step import collectives, gpu_time, host_time, scaling
from models.gpu_step.collectives import Collectives, Topology
from models.gpu_step.data_parallel import (
    Exchange,
    Interference,
    Passes,
    distributed_s,
    sharded_s,
    straggling_share,
)
from models.gpu_step.device import Device, boards, device_of_node
from models.gpu_step.gpu_time import GpuTime, Timing, Vector
from models.gpu_step.host_time import HostTime, StepTiming, measured_hosts
from models.gpu_step.measurements import (
    MeasuredPasses,
    MeasuredStep,
    Measurements,
    read_measurements,
)
from models.gpu_step.memory import Memory, peak_memory
from models.gpu_step.operators import HALF
from models.gpu_step.queues import Step, simulate, varied_us
from models.gpu_step.step import StepWork, step_precision, step_work
from models.gpu_step.timed_kinds import TimedKinds, TimedShare, kind_of, timed_kinds, timed_shares
from models.system import NotCovered, System
from networks.gpu_steps import GpuStep, StepKey, gpu_steps
from networks.own_model import MOST_UNKNOWN
from profilers.clusters.node_types import node_types
from warehouse.records import BadInput, Scenario, TrainingWorkload
from warehouse.requirements import Refusal, Requirement

COVERED = 0.9
"""Part of what is measured that an interval should hold."""
_UNKNOWN = log(3.0)
"""How far operators that nobody timed may be off."""
_COSTLIEST = 10
_MOSTLY = 0.5
"""Share of the GPU's time of operators timed on it from which on a step rests on data of it."""
_KEPT = 256
"""Works of steps that are kept, with their times on all boards: 0.2 MB each."""
_FOLDS = 4


@dataclass(frozen=True)
class PastErrors:
    """How wrong forecasts were of `n` that fits had not seen.

    `percent` is their mean; `half_width` of an interval of logarithms has room for the next one.
    `devices` had them where networks were left out; empty: devices were.
    """

    half_width: float
    percent: float | None = None
    n: int = 0
    devices: Sequence[str] = ()

    @classmethod
    def of(cls, errors: Sequence[float], devices: Iterable[str] = ()) -> Self:
        """Return those of errors as logarithms of forecast over measured."""
        percent = fmean(100 * abs(exp(error) - 1) for error in errors) if errors else None
        return cls(half_width(errors), percent, len(errors), tuple(sorted(set(devices))))


def half_width(errors: Iterable[float]) -> float:
    """Return how far on either side `COVERED` of errors are, of which the next is one more."""
    sizes = sorted(abs(error) for error in errors)
    if not sizes:
        return _UNKNOWN
    return sizes[min(ceil(COVERED * (len(sizes) + 1)), len(sizes)) - 1]


def launches(work: StepWork) -> tuple[float, float]:
    """Return how many launches and how many views a step has."""
    launched = float(work.calls[work.on_gpu].sum())
    return launched, float(work.calls.sum()) - launched


def simulated(work: StepWork, us: Vector, host: HostTime) -> Step:
    """Return a step whose works take `us` on the GPU; what it costs once is spread over its calls.

    Steps of gpu_h100 that the GPU binds are 1.5 ms longer in the median where each is waited for
    (n = 32), of 21 ms that a step costs its host once: the GPU works through most of these.
    """
    issue = np.array([host.issue_us(operator) for operator in work.works])
    host_us = issue[work.order] + host.once_us(work.parameters) / len(work.order)
    step = simulate(host_us, us[work.order], work.waits)
    longer_us = float(varied_us(np.array(step.host_us), np.array(step.gpu_us)))
    return replace(step, step_us=step.step_us + longer_us, varied_us=longer_us)


def fit_host(steps: Sequence[MeasuredStep], us: Sequence[Vector]) -> HostTime:
    """Return the host's times from steps, with the GPU's times of their works as forecast."""
    return host_time.fit(
        [
            StepTiming(*launches(step.work), step.step_us, float(works_us @ step.work.calls))
            for step, works_us in zip(steps, us, strict=True)
        ]
    )


def times_of(steps: Sequence[MeasuredStep], times: GpuTime) -> list[Vector]:
    """Return microseconds of the works of steps; those of one device are forecast at once."""
    works_us: list[Vector] = [np.zeros(0)] * len(steps)
    for device in {step.device.name: step.device for step in steps}.values():
        at = [place for place, step in enumerate(steps) if step.device == device]
        distinct = {work: None for place in at for work in steps[place].work.works}
        us = dict(zip(distinct, times.us(list(distinct), [device])[0], strict=True))
        for place in at:
            works_us[place] = np.array([us[work] for work in steps[place].work.works])
    return works_us


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

    `alone` has the steps of one GPU that were forecast, by node type.
    """

    work: StepWork
    us: Vector
    unknown: Vector
    alone: dict[str, AloneStep] = field(default_factory=dict)


class GpuStepModel:
    """A fitted `gpu_step`."""

    def __init__(
        self,
        times: GpuTime,
        host: HostTime,
        past: Mapping[str, PastErrors],
        timed: TimedKinds,
        hosts: Mapping[str, HostTime],
        parallel: Parallel,
    ) -> None:
        """Take what was fitted.

        Args:
            times: of operators.
            host: of launches.
            past: errors of networks on `timed` devices, and of devices known by data sheet.
            timed: where operators of each kind were timed.
            hosts: those that were measured, by node type; `host` is that of others.
            parallel: of several GPUs.
        """
        self._times, self._host, self._past, self._timed = times, host, past, timed
        self._hosts, self._parallel = hosts, parallel
        self._known: OrderedDict[tuple[TrainingWorkload, StepKey], TimedWork] = OrderedDict()
        self._last: tuple[Scenario, StepForecast] | None = None

    def predict(self, scenarios: Sequence[Scenario]) -> pl.DataFrame:
        """Return the seconds of a step, with an interval."""
        rows = []
        for scenario in scenarios:
            step = self._step(scenario)
            width = self._past_of(scenario).half_width + _UNKNOWN * step.unknown_share
            if (where := _where(scenario)) is not None:
                width = hypot(width, self._parallel.past[where].half_width)
            value = step.step_s
            low = value / exp(width)
            if step.binds == "host" and _node_type(scenario) not in self._hosts:
                # The host of the public steps is slow; another may never be waited for.
                low = min(low, step.alone.gpu_us * 1e-6 / exp(width))
            rows.append((scenario.scenario_id, value, low, value * exp(width)))
        return pl.DataFrame(rows, ["scenario_id", "value", "low", "high"], orient="row")

    def detail(self, scenario: Scenario) -> Mapping[str, Any]:
        """Return what a forecast consists of.

        `binds` (gpu, host or exchange), `gpu_s` and `host_s` of a step of one GPU, `gpus` of all,
        `step_s` of all, `alone_s` of a GPU alone (the larger of `gpu_s` and `host_s`, `waits_s` in
        which the host waits for values and then the GPU for it, and `varied_s` for a host that
        varies), `straggling_share` by which the slowest of all
        takes longer, `most_gpus_judged` together anywhere, `exchange_s` of all collectives (None:
        there are none),
        how wrong scaling was of sources that were left out (`scaling_percent`, `scaling_n`),
        whether that host is one of the node type that was `measured` or the one of the `public`
        steps (`host_rests_on`), `idle_share` of the other,
        `free_batch_size` (to which batches at least cost nothing, where the host binds),
        `peak_bytes` that PyTorch allocates, `needed_bytes` with fragmentation and context,
        `memory_bytes` of the GPU,
        whether it `fits`, about the `largest_batch_size` that does, `unknown_share` of the GPU's
        time, what it `rests_on`: `public` data of this device for most of the GPU's time, else its
        `data sheet`; `timed_on`: on which `device`, in which `dtypes`, operators like its were
        timed, for which `share` of that time (device None: by nobody in that precision),
        how wrong forecasts were of families on `past_devices` (else, where there are none, of
        devices) that were left out of the fit (`past_error_percent`, `past_n`), and the `costliest`
        operators. `product_flops`: of all matrix products of a step of one GPU;
        `peak_flops_per_s`: of the board in the precision of the scenario.
        """
        forecast = self._step(scenario)
        step = forecast.alone
        device, load = _device(scenario), scenario.workload
        memory = _memory(scenario)
        free = _free_batch_size(forecast, load.batch_size)
        past, where = self._past_of(scenario), _where(scenario)
        of_scaling = None if where is None else self._parallel.past[where]
        return {
            "device": device.name,
            "binds": forecast.binds,
            "gpus": _ranks(scenario),
            "step_s": forecast.step_s,
            "alone_s": step.step_us * 1e-6,
            "straggling_share": forecast.straggling_share,
            "exchange_s": forecast.exchange_s,
            "most_gpus_judged": self._parallel.most_gpus,
            "scaling_percent": of_scaling and of_scaling.percent,
            "scaling_n": of_scaling and of_scaling.n,
            "gpu_s": step.gpu_us * 1e-6,
            "host_s": step.host_us * 1e-6,
            "waits_s": step.waits_us * 1e-6,
            "varied_s": step.varied_us * 1e-6,
            "product_flops": self._timed_work(scenario).work.product_flops,
            "peak_flops_per_s": device.peak.get(load.precision, device.peak["float32"]),
            "host_rests_on": "measured" if _node_type(scenario) in self._hosts else "public",
            "idle_share": step.idle_share,
            "free_batch_size": free,
            "peak_bytes": memory.allocated_bytes,
            "needed_bytes": memory.needed_bytes,
            "memory_bytes": int(device.memory_bytes),
            "fits": memory.fits(device),
            "largest_batch_size": memory.largest_batch_size(device, load.batch_size),
            "unknown_share": forecast.unknown_share,
            "rests_on": "public" if self._rests_on_itself(scenario) else "data sheet",
            "timed_on": [asdict(each) for each in self._alone(scenario).timed_on],
            "past_error_percent": past.percent,
            "past_n": past.n,
            "past_devices": list(past.devices),
            "data_sheet": device.source,
            "costliest": self._alone(scenario).costliest,
        }

    def split(self, scenario: Scenario) -> str | None:
        """Return `held_out_device` of a GPU that is known by its data sheet alone, else None."""
        is_timed = self._is_timed(_device(scenario), scenario.workload.precision)
        return None if is_timed else "held_out_device"

    def parameters_json(self) -> str:
        """Return the fit as JSON."""
        fields = {
            "times": self._times.fields(),
            "host": asdict(self._host),
            "past": {name: asdict(errors) for name, errors in self._past.items()},
            "timed": self._timed,
            "timed_nodes": self._timed_nodes(),
            "hosts": {name: asdict(host) for name, host in self._hosts.items()},
            "parallel": self._parallel.fields(),
        }
        return json.dumps(fields, sort_keys=True, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Return the fit of JSON."""
        fields = json.loads(text)
        return cls(
            GpuTime.of(fields["times"]),
            HostTime(**fields["host"]),
            {name: PastErrors(**errors) for name, errors in fields["past"].items()},
            fields["timed"],
            {name: HostTime(**host) for name, host in fields["hosts"].items()},
            Parallel.of(fields["parallel"]),
        )

    def _timed_nodes(self) -> list[str]:
        """Return node types, or families of them, whose GPU was timed in half precision or full.

        By these, forecasts of the ledger are told apart (`report.split_of`).
        """
        timed_nodes = []
        for device in boards():
            names = [f"gpu.{name}" for name in (device.name, *device.aliases)]
            for units, precision in (("full", "float32"), ("half", "float16")):
                if self._is_timed(device, precision):
                    timed_nodes += [f"{name} {units}" for name in (*names, *device.instances)]
        return sorted(timed_nodes)

    def _is_timed(self, device: Device, precision: str) -> bool:
        return any(
            device.name in by_device and kind.endswith(" half") == (precision in HALF)
            for kind, by_device in self._timed.items()
        )

    def _rests_on_itself(self, scenario: Scenario) -> bool:
        """Tell whether operators like a step's were timed on its GPU, for most of their time."""
        return self._alone(scenario).timed_share(_device(scenario)) >= _MOSTLY

    def _past_of(self, scenario: Scenario) -> PastErrors:
        """Return past errors of forecasts like it."""
        is_judged = _device(scenario).name in self._past["timed"].devices
        return self._past["timed" if is_judged and self._rests_on_itself(scenario) else "untimed"]

    def _step(self, scenario: Scenario) -> StepForecast:
        """Return the step of a scenario, and of a GPU of it alone.

        Whoever asks for a forecast asks for its detail next.
        """
        if self._last is None or self._last[0] != scenario:
            self._last = scenario, self._step_of(scenario)
        return self._last[1]

    def _step_of(self, scenario: Scenario) -> StepForecast:
        of_one = self._alone(scenario)
        alone, share, optimizer_us = of_one.step, of_one.unknown_share, of_one.optimizer_us
        alone_s = alone.step_us * 1e-6
        if scenario.strategy.kind == "single":
            return StepForecast(alone, share, alone_s, optimizer_us)
        load, optimizer_s = scenario.workload, of_one.optimizer_s
        accumulate = load.accumulate
        passes = Passes((alone_s - optimizer_s) / accumulate, optimizer_s, accumulate)
        is_sharded = scenario.strategy.kind == "sharded"
        trace, exchanged = _trace(scenario), _trace(scenario).parameters
        if is_sharded:
            # Frozen parameters are gathered, too; mixed precision casts what is exchanged.
            exchanged = tuple(
                replace(each, dtype=load.precision if load.precision in HALF else each.dtype)
                for each in (*exchanged, *trace.frozen)
            )
        sizes = tuple(float(each.bytes) for each in exchanged)
        exchange = Exchange(sizes, self._parallel.collectives, _topology(scenario))
        interference = self._parallel.interference
        if is_sharded:
            exchange_s = 3 * accumulate * sum(exchange.gathers_s)
            step_s = sharded_s(passes, exchange, interference)
        else:
            exchange_s = sum(reduction_s for _, reduction_s in exchange.reductions)
            step_s = distributed_s(passes, exchange, interference)
        slower = straggling_share(exchange, interference)
        return StepForecast(alone, share, step_s, optimizer_us, exchange_s, slower)

    def _alone(self, scenario: Scenario) -> AloneStep:
        """Return the step of one GPU; times of works on all boards are forecast at once."""
        timed, name = self._timed_work(scenario), _node_type(scenario)
        if name not in timed.alone:
            us = timed.us[boards().index(_device(scenario))]
            spent = us * timed.work.calls
            total = float(spent.sum())
            step = simulated(timed.work, us, self._hosts.get(name, self._host))
            optimizer_us = float(spent[timed.work.first_of_optimizer :].sum())
            timed.alone[name] = AloneStep(
                step=step,
                unknown_share=float(spent @ timed.unknown) / total if total else 0.0,
                optimizer_us=optimizer_us,
                optimizer_s=step.step_us * 1e-6 * optimizer_us / total if total else 0.0,
                costliest=_costliest(timed.work, spent),
                timed_on=timed_shares(
                    self._timed,
                    _device(scenario).name,
                    zip(map(kind_of, timed.work.works), spent, strict=True),
                ),
            )
        return timed.alone[name]

    def _timed_work(self, scenario: Scenario) -> TimedWork:
        load, key = scenario.workload, (scenario.workload, _key(scenario))
        timed = self._known.get(key)
        if timed is None:
            work = _work(scenario)
            _refuse_unknown(work, self._times, _device(scenario), load.dnn)
            unknown = np.array([not self._times.knows(operator) for operator in work.works], float)
            timed = TimedWork(work, self._times.us(work.works, boards()), unknown)
            self._known[key] = timed
            if len(self._known) > _KEPT:
                self._known.popitem(last=False)
        return timed


def _refuse_unknown(work: StepWork, times: GpuTime, device: Device, dnn: str) -> None:
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
    by_name: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
    for operator, us, calls in zip(work.works, spent_us, work.calls, strict=True):
        by_name[operator.name][0] += us
        by_name[operator.name][1] += calls
    most = sorted(by_name.items(), key=lambda item: -item[1][0])[:_COSTLIEST]
    return [
        {"operator": name, "calls": int(calls), "gpu_s": us * 1e-6} for name, (us, calls) in most
    ]


def _free_batch_size(forecast: StepForecast, batch_size: int) -> int | None:
    """Return to which batch at least the host takes longer; None: it does not bind.

    What the GPU takes grows with the batch but for the optimizer, and by less than that.
    """
    step = forecast.alone
    if step.binds != "host":
        return None
    fixed_us = min(forecast.optimizer_us, step.host_us)
    return int(batch_size * (step.host_us - fixed_us) / max(step.gpu_us - fixed_us, 1.0))


def _node_type(scenario: Scenario) -> str:
    return scenario.nodes[0].node_type


def _ranks(scenario: Scenario) -> int:
    return scenario.strategy.workers * scenario.strategy.devices_per_node


def _where(scenario: Scenario) -> str | None:
    """Return whether GPUs exchange `within` a node or `across` nodes; None: there is one."""
    if _ranks(scenario) == 1:
        return None
    return "across" if scenario.strategy.workers > 1 else "within"


def _topology(scenario: Scenario) -> Topology:
    """Return the links of a scenario's GPUs; the network is as fast as it says, else as rated."""
    kind, device = node_types()[_node_type(scenario)], _device(scenario)
    network_bps = (scenario.link_mbps or kind.bandwidth_mbps) * 1e6 / 8
    is_rented = _node_type(scenario).partition(".")[0] in device.instances
    if is_rented and not kind.efa:
        network_bps = min(network_bps, scaling.TCP_BPS)
    strategy = scenario.strategy
    link_bps = device.link_bps(kind.gpu_link)
    return Topology(strategy.devices_per_node, strategy.workers, link_bps, network_bps)


def _device(scenario: Scenario) -> Device:
    device = device_of_node(_node_type(scenario))
    assert device is not None  # `_inputs` refuses others.
    return device


def _key(scenario: Scenario) -> StepKey:
    load = scenario.workload
    precision = step_precision(load.precision, scenario.strategy.kind)
    return StepKey(load.dnn, load.batch_size, load.image_size, precision)


def _trace(scenario: Scenario) -> GpuStep:
    key = _key(scenario)
    try:
        return gpu_steps([key])[key]
    except (ValueError, RuntimeError) as error:
        raise NotCovered(str(error)) from error


def _work(scenario: Scenario) -> StepWork:
    load = scenario.workload
    return step_work(_trace(scenario), load.optimizer, load.precision, load.accumulate)


def _memory(scenario: Scenario) -> Memory:
    """Return the most memory of a step."""
    load, kind = scenario.workload, scenario.strategy.kind
    return peak_memory(
        _trace(scenario),
        load.optimizer,
        load.precision,
        accumulate=load.accumulate,
        distributed=kind == "all_reduce",
        shards=_ranks(scenario) if kind == "sharded" else 1,
    )


# What it is fitted to.


def fit_model(
    measured: Measurements, hosts: Mapping[str, HostTime] = MappingProxyType({})
) -> GpuStepModel:
    """Fit times, the host's times and widths of intervals to public measurements.

    Args:
        measured: by others.
        hosts: those that were measured here, by node type.

    Raises:
        BadInput: steps or operators are missing.
    """
    if not measured.timings or not measured.steps:
        raise BadInput("public measurements lack steps of a GPU; `stepcast load public`")
    times = gpu_time.fit(measured.timings)
    host = fit_host(measured.steps, times_of(measured.steps, times))
    families = judged_groups(measured)
    past = {
        "timed": PastErrors.of(
            [judged.error for judged in families],
            [judged.measured.device.name for judged in families],
        ),
        "untimed": PastErrors.of(device_errors(measured)),
    }
    timed = timed_kinds(measured.timings)
    return GpuStepModel(times, host, past, timed, hosts, Parallel.fitted(measured))


def judged_groups(measured: Measurements) -> list["JudgedStep"]:
    """Return steps as forecast without their family; a few are left out at a time.

    That takes a third of the time of `judged_families`, one family at a time.
    """
    names = sorted({step.family for step in measured.steps})
    groups = [names[start::_FOLDS] for start in range(min(_FOLDS, len(names)))]
    return judged_families(measured, groups)


def device_errors(measured: Measurements) -> list[float]:
    """Return the same of passes and steps, each by a fit without its device."""
    forecasts, steps = judged_devices(measured)
    return [log(us / passes.passes_us) for passes, us in forecasts] + [step.error for step in steps]


Forecasts = Sequence[tuple[MeasuredPasses, float]]
"""Passes that were measured, and microseconds as forecast without what was left out."""


def judged_devices(measured: Measurements) -> tuple[Forecasts, list["JudgedStep"]]:
    """Return passes and steps, each as forecast by a fit that knows its device by data sheet alone.

    Of some devices nobody timed an operator: their fit is that to all timings.
    The host's times are those of the machine that has the device.
    """
    judged_passes: list[tuple[MeasuredPasses, float]] = []
    judged_steps: list[JudgedStep] = []
    names = {passes.device.name for passes in measured.passes}
    for name in sorted(names | {step.device.name for step in measured.steps}):
        device_passes = [passes for passes in measured.passes if passes.device.name == name]
        steps = [step for step in measured.steps if step.device.name == name]
        times = gpu_time.fit(without_device(measured.timings, name))
        judged_passes += [(passes, passes_us(passes, times)) for passes in device_passes]
        step_us = times_of(steps, times)
        host = fit_host(steps, step_us) if steps else None
        for step, us in zip(steps, step_us, strict=True):
            if host is not None:
                judged_steps.append(JudgedStep(step, simulated(step.work, us, host)))
    return judged_passes, judged_steps


def passes_us(passes: MeasuredPasses, times: GpuTime) -> float:
    """Return microseconds of the GPU for all operators of passes."""
    us = times.us([work for work, _ in passes.works], [passes.device])[0]
    return float(us @ np.array([count for _, count in passes.works]))


def without_device(timings: Iterable[Timing], name: str) -> list[Timing]:
    """Return timings of other chips than a device's."""
    return [timing for timing in timings if not same_chip(timing.device.name, name)]


def same_chip(name: str, other: str) -> bool:
    """Tell whether devices are boards of one chip: leaving out one leaves out all of them."""
    return name.partition("-")[0] == other.partition("-")[0]


@dataclass(frozen=True)
class JudgedStep:
    """A measured step, and its forecast by a fit that had seen nothing of its family."""

    measured: MeasuredStep
    step: Step

    @property
    def larger_of_both_us(self) -> float:
        """Microseconds of the resource that works longer, as if the other never waited."""
        return max(self.step.host_us, self.step.gpu_us)

    @property
    def error(self) -> float:
        """Logarithm of forecast over measured."""
        return log(self.step.step_us / self.measured.step_us)


def judged_families(
    measured: Measurements, groups: Sequence[Sequence[str]] | None = None
) -> list[JudgedStep]:
    """Return each step as forecast by a fit to the timings and steps of other families.

    `groups`: families that are left out together; one at a time if none are given.
    """
    judged_steps = []
    for group in groups or [
        [family] for family in sorted({step.family for step in measured.steps})
    ]:
        times = gpu_time.fit(without_families(measured.timings, group))
        step_us = times_of(measured.steps, times)
        others = [place for place, step in enumerate(measured.steps) if step.family not in group]
        host = fit_host([measured.steps[i] for i in others], [step_us[i] for i in others])
        for step, us in zip(measured.steps, step_us, strict=True):
            if step.family in group:
                judged_steps.append(JudgedStep(step, simulated(step.work, us, host)))
    return judged_steps


def without_families(timings: Iterable[Timing], families: Iterable[str]) -> list[Timing]:
    """Return timings of other families; names of families differ by source in case alone."""
    plain = set(map(_plain, families))
    return [timing for timing in timings if _plain(timing.family) not in plain]


def _plain(family: str) -> str:
    return "".join(character for character in family.lower() if character.isalnum())


def _inputs(scenario: Scenario) -> tuple[Requirement, ...] | Refusal:
    load, strategy, name = scenario.workload, scenario.strategy, _node_type(scenario)
    if load.framework != "pytorch" or strategy.has_servers:
        reason = f"it is about GPUs of pytorch, not {strategy.kind} of {load.framework}"
        return Refusal(reason, foreign=True)
    device = device_of_node(name)
    if device is None:
        return Refusal(f"no data sheet of a GPU of {name}", foreign=not name.startswith("gpu."))
    if len({node.node_type for node in scenario.nodes}) > 1:
        return Refusal("it knows GPUs of one type together, not mixed ones")
    kind = node_types().get(name)
    if kind is None or strategy.devices_per_node > kind.gpus:
        has = "no" if kind is None else str(kind.gpus)
        return Refusal(f"{strategy.devices_per_node} devices a node, but {name} has {has}")
    if load.precision in HALF and load.precision not in device.peak:
        others = [precision for precision in device.peak if precision != "float32"]
        instead = f"; it has some for {' and '.join(others)}" if others else ""
        return Refusal(f"{device.name} has no matrix units for {load.precision}{instead}")
    if load.memory_format != "contiguous":
        return Refusal(
            f"nobody timed operators in {load.memory_format}, which may take half or twice as "
            "long; leave out --memory-format for contiguous tensors"
        )
    return (
        Requirement("csv", "public", scenario),
        # What its host needs to issue a step; all that are known, so that one fit does for all.
        Requirement("inventory", "train", scenario, optional=True),
        # A study that names the probe has it measured on its own nodes.
        Requirement("inventory", "cluster", scenario, optional=True, any_link=True),
    )


def _prepare(scenarios: Sequence[Scenario]) -> None:
    wanted = [
        _key(scenario) for scenario in scenarios if not isinstance(_inputs(scenario), Refusal)
    ]
    try:
        gpu_steps(wanted)
    except (ValueError, RuntimeError):
        return


GPU_STEP = System(
    name="gpu_step",
    version="8",
    what="Steps of GPUs from operators, launches and exchanged gradients; names what binds.",
    source="ours, after Hafeez, Gandhi, Ceer, section IV",
    tables=("run", "source", "external", "sample"),
    inputs=_inputs,
    any_recipe=True,
    fit=lambda tables: fit_model(
        read_measurements(tables), measured_hosts(tables["run"], tables["sample"])
    ),
    load=lambda text, _: GpuStepModel.from_json(text),
    pooled=True,
    prepare=_prepare,
    tells=True,
)
