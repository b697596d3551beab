"""System `gpu_step`: a training step of GPUs from its operators, and what binds it.

GPU time is the sum of regressions of its operators (`gpu_time`), host time so much for each
operator (`host_time`), of the node type where probe `inventory` measured it, else of the middle one
of the hosts of public steps; the step is two queues (`queues`). Fits rest on public measurements
(`data/public`) and data sheets. Intervals are as wide as past errors were of families of networks
that a fit had not seen, or, on devices that nobody timed, of devices that it had not seen; wider by
the share of operators that nobody timed, and as far as hosts differ.

Several GPUs exchange gradients beside their passes (`data_parallel`), over links and networks as
the catalogue of node types rates them (`collectives`); intervals are wider by how wrong scaling was
of sources that were left out (`scaling`). Errors of families count on boards whose steps were
measured; on others, or where most operators were timed elsewhere (`timed_kinds`), those of devices.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cache, cached_property
from math import exp, hypot, log
from types import MappingProxyType
from typing import Any

import polars as pl
from pydantic import TypeAdapter

from models.gpu_step import gpu_time, own_traces, timed_collectives
from models.gpu_step.device import Device, boards
from models.gpu_step.host_time import HostClasses, HostTime, measured_hosts, processor_of
from models.gpu_step.judged_steps import (
    FOLDS,
    UNKNOWN_WIDTH,
    JudgedCase,
    PastErrors,
    fit_hosts,
    fits_without_devices,
    judged_devices,
    judged_elsewhere,
    judged_families,
    past_errors,
)
from models.gpu_step.measurements import Measurements
from models.gpu_step.operators import HALF
from models.gpu_step.own_times import OwnTimes
from models.gpu_step.own_traces import OwnTrace
from models.gpu_step.parallel_steps import Parallel
from models.gpu_step.public_measurements import read_measurements
from models.gpu_step.requirements import gpu_of, node_type_of, ranks_of, reach_of, requirements
from models.gpu_step.scenario_steps import StepForecaster, memory_of, prepare, trace_of
from models.gpu_step.timed_collectives import OwnClusters
from models.gpu_step.timed_kinds import TimedKinds, kind_of, timed_kinds, timed_shares
from models.system import System
from networks.gpu_steps import GpuStep
from warehouse.records import BadInput, Scenario
from warehouse.requirements import Refusal

Traces = Mapping[str, Sequence[str]]
"""Sources of one's own profiled steps by device."""
_MOSTLY_OF: Mapping[str, str] = {"images": "convolution", "words": "matmul"}
"""Operators of which most of a network consists, by what it sees."""
_MOSTLY = 0.5
"""Share of the GPU's time of operators timed on it from which on a step rests on data of it."""
_FROZEN = 0.05
"""Part of all parameters from which on a step is one with frozen parameters."""


@dataclass(frozen=True, eq=False)
class GpuStepModel:
    """A fitted `gpu_step`.

    Attributes:
        times: of operators.
        classes: of hosts, as public steps tell them, and those that were measured.
        past: errors of networks on `timed` devices, and of devices known by data sheet.
        timed: where operators of each kind were timed.
        parallel: of several GPUs.
        judged: the cases behind `past`.
        traces: of one's own, by device.
    """

    times: OwnTimes
    classes: HostClasses
    past: Mapping[str, PastErrors]
    timed: TimedKinds
    parallel: Parallel
    judged: Sequence[JudgedCase] = ()
    traces: Traces = field(default_factory=dict)

    @cached_property
    def steps(self) -> StepForecaster:
        """Steps of scenarios."""
        return StepForecaster(self.times, self.classes, self.timed, self.parallel)

    @cached_property
    def _own_kinds(self) -> TimedKinds:
        return timed_kinds(self.times.timings)

    def predict(self, scenarios: Sequence[Scenario]) -> pl.DataFrame:
        """Return the seconds of a step, with an interval."""
        rows = []
        for scenario in scenarios:
            step = self.steps.step(scenario)
            unknown_share = step.alone.unknown_share
            width = self._past_of(scenario).half_width + UNKNOWN_WIDTH * unknown_share
            if (where := reach_of(scenario)) is not None:
                of_links = log(self.steps.slower(scenario).step_s / step.step_s)
                width = hypot(width, max(self.parallel.past[where].half_width, of_links))
            fastest, slowest = self._with_hosts(scenario)
            low, high = step.step_s * fastest / exp(width), step.step_s * slowest * exp(width)
            rows.append((scenario.scenario_id, step.step_s, low, high))
        return pl.DataFrame(rows, ["scenario_id", "value", "low", "high"], orient="row")

    def _with_hosts(self, scenario: Scenario) -> tuple[float, float]:
        """Return how many times as long a step takes with the fastest and the slowest host."""
        step = self.steps.step(scenario).alone.step
        if self.classes.of_node(node_type_of(scenario))[1] != "public":
            return 1.0, 1.0
        return self.classes.spread_of(step.host_us, step.gpu_us)

    def detail(self, scenario: Scenario) -> Mapping[str, Any]:
        """Return what a forecast consists of.

        `binds` (gpu, host or exchange), `gpu_s` and `host_s` of a step of one GPU, `gpus` of all,
        `step_s` of all, `alone_s` of a GPU alone (the larger of `gpu_s` and `host_s`, `waits_s` in
        which the host waits for values and then the GPU for it, and `varied_s` for a host that
        varies), `straggling_share` by which the slowest of all
        takes longer, `most_gpus_judged` together anywhere, `exchange_s` of all collectives (None:
        there are none), of these `tensor_s` and `transfer_s` of a divided network, of which nothing
        is beside the passes, and `bubble_s` in which its stages idle,
        how wrong scaling was of sources that were left out (`scaling_percent`, `scaling_n`),
        what that host rests on (`host_rests_on`, as `HostClasses.of_node` says) and the name of its
        `processor`, how many times as long a step takes with the `fastest_host` and
        the `slowest_host` of these, `idle_share` of the other,
        `free_batch_size` (to which batches at least cost nothing, where the host binds),
        `peak_bytes` that PyTorch allocates, `needed_bytes` with fragmentation and context
        (`memory_parts`: what `Memory` consists of, and what is `on_top_bytes` of that),
        `memory_bytes` of the GPU,
        whether it `fits`, about the `largest_batch_size` that does, `unknown_share` of the GPU's
        time, what it `rests_on`: `public` data of this device for most of the GPU's time, else its
        `data sheet`; `timed_on`: on which `device`, in which `dtypes`, operators like its were
        timed, for which `share` of that time (device None: by nobody in that precision);
        `own_clusters`: sources of one's own logs of collectives and reports of links, where
        several GPUs of its node type exchange; `own_traces`: sources of one's own profiled steps
        on it, and `own_share` of that time of operators whose kinds these have, which corrected
        this;
        how wrong forecasts were of families on `past_devices` (else, where there are none, of
        devices) that were left out of the fit (`past_error_percent`, `past_n`), and the `costliest`
        operators, with the `flops` and `bytes` of their calls. `kept`: of a step that computes
        activations again, what one of a GPU that keeps them would need (`needed_bytes`, whether it
        `fits`) and how much `longer` this is, as a share; None: it keeps them. `eager`: of a
        compiled step, the same of an eager one, `launches` of both, and how often which calls break
        its graph; None: it is eager. `product_flops`: of all matrix products of a step of one GPU
        but those computed again; `peak_flops_per_s`: of the board in the type of most of these;
        `peak_Bps`: of its memory. `is_unlike_judged`: parameters are frozen, activations computed
        again or the step is compiled, and no step that was measured was such.
        """
        forecast = self.steps.step(scenario)
        step = forecast.alone.step
        device, load = gpu_of(scenario), scenario.workload
        memory = memory_of(scenario)
        past, where = self._past_of(scenario), reach_of(scenario)
        fastest, slowest = self._with_hosts(scenario)
        flops, trace = self.steps.model_flops(scenario), trace_of(scenario)
        computed_in = max(flops, key=lambda dtype: flops[dtype], default="float32")
        if computed_in not in HALF and load.precision not in HALF:
            computed_in = load.precision  # TF32 of convolutions is no type of theirs
        of_scaling = None if where is None else self.parallel.past[where]
        own_links = self.parallel.own_sources.get(node_type_of(scenario), ())
        return {
            "device": device.name,
            "binds": forecast.binds,
            "gpus": ranks_of(scenario),
            "step_s": forecast.step_s,
            "alone_s": step.step_us * 1e-6,
            "straggling_share": forecast.straggling_share,
            "exchange_s": forecast.exchange_s,
            "bubble_s": forecast.bubble_s,
            "tensor_s": forecast.tensor_s,
            "transfer_s": forecast.transfer_s,
            "most_gpus_judged": self.parallel.most_gpus,
            "scaling_percent": of_scaling and of_scaling.percent,
            "scaling_n": of_scaling and of_scaling.n,
            "gpu_s": step.gpu_us * 1e-6,
            "host_s": step.host_us * 1e-6,
            "waits_s": step.waits_us * 1e-6,
            "varied_s": step.varied_us * 1e-6,
            "product_flops": sum(flops.values()),
            "peak_flops_per_s": device.peak.get(computed_in, device.peak["float32"]),
            "peak_Bps": device.bandwidth,
            "host_rests_on": self.classes.of_node(node_type_of(scenario))[1],
            "processor": processor_of(node_type_of(scenario)),
            "fastest_host": fastest,
            "slowest_host": slowest,
            "idle_share": step.idle_share,
            "free_batch_size": forecast.free_batch_size(load.batch_size),
            "peak_bytes": memory.allocated_bytes,
            "needed_bytes": memory.needed_bytes,
            "memory_parts": {**asdict(memory), "on_top_bytes": memory.on_top_bytes},
            "memory_bytes": int(device.memory_bytes),
            "fits": memory.fits(device),
            "is_unlike_judged": trace.kept is not None or bool(load.compiled) or _is_frozen(trace),
            "kept": self.steps.kept(scenario),
            "eager": self.steps.eager(scenario),
            "largest_batch_size": memory.largest_batch_size(device, load.batch_size),
            "unknown_share": forecast.alone.unknown_share,
            "rests_on": "public" if self._rests_on_itself(scenario) else "data sheet",
            "own_traces": list(self.traces.get(device.name, ())),
            "own_share": self._own_share(scenario),
            "own_clusters": list(own_links) if where else [],
            "timed_on": list(forecast.alone.timed_on),
            "past_error_percent": past.percent,
            "past_n": past.n,
            "past_devices": list(past.devices),
            "data_sheet": device.source,
            "costliest": forecast.alone.costliest,
        }

    def split(self, scenario: Scenario) -> str | None:
        """Return `held_out_device` of a GPU that is known by its data sheet alone, else None."""
        load = scenario.workload
        kind = "images" if load.image_size > 1 else "words"
        is_timed = self._is_timed(gpu_of(scenario), load.precision, kind)
        return None if is_timed else "held_out_device"

    def parameters_json(self) -> str:
        """Return the fit as JSON."""
        fields = _in_json().dump_python(self, mode="json") | {"timed_nodes": self._timed_nodes()}
        return json.dumps(fields, sort_keys=True, separators=(",", ":"))

    def _timed_nodes(self) -> list[str]:
        """Return node types, or families of them, and in what their GPU was timed.

        That is half precision or full, and what most networks of images or words consist of.
        By these, forecasts of the ledger are told apart (`report.split_of`).
        """
        timed_nodes = []
        for device in boards():
            names = [f"gpu.{name}" for name in (device.name, *device.aliases)]
            for units, precision in (("full", "float32"), ("half", "float16")):
                for kind in _MOSTLY_OF:
                    if self._is_timed(device, precision, kind):
                        timed = f"{units} {kind}"
                        timed_nodes += [f"{name} {timed}" for name in (*names, *device.instances)]
        return sorted(timed_nodes)

    def _is_timed(self, device: Device, precision: str, of: str) -> bool:
        return any(
            device.name in by_device
            and kind.startswith(f"{_MOSTLY_OF[of]} ")
            and kind.endswith(" half") == (precision in HALF)
            for kind, by_device in self.timed.items()
        )

    def _rests_on_itself(self, scenario: Scenario) -> bool:
        """Tell whether operators like a step's were timed on its GPU, for most of their time."""
        return self.steps.alone(scenario).timed_share(gpu_of(scenario)) >= _MOSTLY

    def _own_share(self, scenario: Scenario) -> float:
        """Return the share of the GPU's time of operators whose kind is in an own trace on it."""
        timed, device = self.steps.work(scenario), gpu_of(scenario)
        if device.name not in self.traces:
            return 0.0
        spent = timed.us[boards().index(device)] * timed.work.calls
        by_kind = zip(map(kind_of, timed.work.works), spent.tolist(), strict=True)
        shares = timed_shares(self._own_kinds, device.name, by_kind)
        return float(sum(each["share"] for each in shares if each["device"] == device.name))

    def _past_of(self, scenario: Scenario) -> PastErrors:
        """Return past errors of forecasts like it, of its kind of step where there are some."""
        kind = self.steps.work(scenario).kind
        is_judged = gpu_of(scenario).name in self.past["timed"].devices
        name = "timed" if is_judged and self._rests_on_itself(scenario) else "untimed"
        past = self.past.get(f"{name}, {kind}", self.past[name])
        return past if name == "timed" else replace(past, devices=())


@cache
def _in_json() -> TypeAdapter[GpuStepModel]:
    return TypeAdapter(GpuStepModel)


def fit_model(
    measured: Measurements,
    hosts: Mapping[str, HostTime] = MappingProxyType({}),
    traces: Sequence[OwnTrace] = (),
    clusters: OwnClusters | None = None,
) -> GpuStepModel:
    """Fit times, the host's times and widths of intervals to public measurements.

    Args:
        measured: by others.
        hosts: those that were measured here, by node type.
        clusters: of one's own.
        traces: of one's own, which neither the host's times nor widths of intervals rest on.

    Raises:
        BadInput: steps or operators are missing.
    """
    if not measured.timings or not measured.steps:
        raise BadInput("public measurements lack steps of a GPU; `stepcast load public`")
    times = gpu_time.fit(measured.timings, measured.both_layouts)
    classes = replace(
        fit_hosts((*measured.steps, *measured.elsewhere), times), measured=dict(hosts)
    )
    families = [JudgedCase.of(judged, "family") for judged in judged_families(measured, FOLDS)]
    families += [
        JudgedCase.of(judged, "source")
        for judged in judged_elsewhere(measured, times)
        if judged.measured.is_plain
    ]
    devices = [
        JudgedCase.of(judged, "device")
        for judged_steps in judged_devices(measured, fits_without_devices(measured))
        for judged in judged_steps
    ]
    past = past_errors({"timed": families, "untimed": devices})
    own = [timing for trace in traces for timing in trace.timings]
    timed, parallel = timed_kinds(measured.timings), Parallel.fitted(measured, clusters)
    sources: dict[str, list[str]] = {}
    for trace in traces:
        sources.setdefault(trace.device.name, []).append(trace.source)
    cases = [*families, *devices]
    corrected = OwnTimes(times, own)
    return GpuStepModel(corrected, classes, past, timed, parallel, cases, sources)


def _is_frozen(step: GpuStep) -> bool:
    """Tell whether many parameters get no gradient; a layer that nothing reads has few."""
    trained, frozen = (
        sum(each.numbers * times for each, times in counts.items())
        for counts in (step.trained_counts, step.frozen_counts)
    )
    return frozen > _FROZEN * (trained + frozen)


GPU_STEP = System(
    name="gpu_step",
    version="13",
    what="Steps of GPUs from operators, launches and exchanged gradients; names what binds.",
    source="ours, after Hafeez, Gandhi, Ceer, section IV",
    tables=("run", "source", "external", "sample", *own_traces.TABLES, *timed_collectives.TABLES),
    inputs=requirements,
    any_recipe=True,
    fit=lambda tables: fit_model(
        read_measurements(tables),
        measured_hosts(tables["run"], tables["sample"]),
        own_traces.read_traces(tables),
        timed_collectives.read_clusters(tables),
    ),
    load=lambda text, _: _in_json().validate_json(text),
    loads_alone=True,
    pooled=True,
    prepare=lambda scenarios: prepare(
        [each for each in scenarios if not isinstance(requirements(each), Refusal)]
    ),
    tells=True,
)
