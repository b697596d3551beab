"""A step of several GPUs, from that of one: what they exchange, and how stages wait.

Micro batches of a pipeline take 1F1B's closed form (Narayanan et al., 2021, section 2.2): so many
times the slowest stage, and once all other stages, which virtual stages shorten.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import ceil
from typing import Any, Self

import polars as pl

from models.gpu_step import collectives, scaling
from models.gpu_step.collectives import Collectives, Topology
from models.gpu_step.columns import Vector
from models.gpu_step.data_parallel import (
    Exchange,
    Passes,
    distributed_s,
    sharded_s,
    straggling_share,
)
from models.gpu_step.device import Device
from models.gpu_step.host_time import HostTime
from models.gpu_step.judged_steps import PastErrors, simulated
from models.gpu_step.layout import ALL_DIVIDED, GRADIENTS_DIVIDED, Blocks, Layout
from models.gpu_step.measurements import Measurements
from models.gpu_step.operators import HALF
from models.gpu_step.queues import Step, slowest_s
from models.gpu_step.step import StepWork
from models.gpu_step.timed_collectives import OwnClusters
from models.gpu_step.timed_kinds import TimedShare
from networks.gpu_steps import GpuStep
from warehouse.records import Precision

_ISSUED_S = 67e-6
"""What a host takes to issue a collective: about two products' of the middle public one. Ours: rows
of vTrain say 65, so those rows judge all but this."""


@dataclass(frozen=True)
class Parallel:
    """What several GPUs need beyond a step of each; past errors `within` a node, `across` nodes.

    `most_gpus` is of how many together scaling was judged at most. Of one's own clusters by node
    type: `own_bps` over TCP, and who says so (`own_sources`).
    """

    collectives: Collectives
    straggling: float
    past: Mapping[str, PastErrors]
    most_gpus: int = 1
    own_bps: Mapping[str, float] = field(default_factory=dict)
    own_sources: Mapping[str, Sequence[str]] = field(default_factory=dict)

    @cached_property
    def slower(self) -> Self:
        """Return the same with collectives as slow as one in twenty is."""
        slow = replace(self.collectives, deviations=collectives.NINE_OF_TEN)
        return replace(self, collectives=slow)

    @classmethod
    def fitted(cls, measured: Measurements, own: OwnClusters | None = None) -> Self:
        """Return what public measurements tell; widths are of sources that were left out.

        Collectives of one's own clusters count beside the public ones.
        """
        own = own or OwnClusters()
        known = collectives.fit(measured.collectives)
        judged_scalings = scaling.judged_sources(measured.scalings, known)
        past = {
            where: PastErrors.of(
                [error for each, error in judged_scalings if (each.more.nodes > 1) == is_across]
            )
            for where, is_across in (("within", False), ("across", True))
        }
        most_gpus = max((each.more.ranks for each, _ in judged_scalings), default=1)
        straggling = scaling.fit_straggling(measured.scalings, known)
        if len(own.timed):
            known = collectives.fit(pl.concat([measured.collectives, own.timed]))
        widened = known.with_widths()
        return cls(widened, straggling, past, most_gpus, own.network_bps, own.sources)


@dataclass(frozen=True)
class AloneStep:
    """A step of one GPU of a node type, whatever else trains."""

    step: Step
    optimizer_us: float = 0.0
    optimizer_s: float = 0.0
    unknown_share: float = 0.0
    costliest: Sequence[Mapping[str, Any]] = ()
    timed_on: Sequence[TimedShare] = ()

    @classmethod
    def of(cls, work: StepWork, us: Vector, host: HostTime) -> "AloneStep":
        """Return the step of works that take so many microseconds each."""
        spent = us * work.calls
        step, total = simulated(work, us, host), float(spent.sum())
        optimizer_us = float(spent[work.first_of_optimizer :].sum())
        optimizer_s = step.step_us * 1e-6 * optimizer_us / total if total else 0.0
        return cls(step, optimizer_us, optimizer_s)

    def timed_share(self, device: Device) -> float:
        """Return the share of the GPU's time of operators whose kind was timed on a device."""
        shares = (each["share"] for each in self.timed_on if each["device"] == device.name)
        return float(sum(shares))

    def of_passes(self, passes: float, known: int) -> "AloneStep":
        """Return the step of so many passes, from that of `known` ones."""
        if passes == known:
            return self
        ratio, (step_us, gpu_us) = passes / known, self.passes_us
        step = replace(
            self.step,
            step_us=step_us * ratio + 1e6 * self.optimizer_s,
            gpu_us=gpu_us * ratio + self.optimizer_us,
            host_us=self.step.host_us * ratio,
        )
        return replace(self, step=step)

    def longer_by(self, slowed: "AloneStep", usual: "AloneStep") -> "AloneStep":
        """Return this step with passes as much longer as those of a stage are, slowed for usual."""
        step_us, gpu_us = (
            slow - as_usual
            for slow, as_usual in zip(slowed.passes_us, usual.passes_us, strict=True)
        )
        step = self.step
        longer = replace(step, step_us=step.step_us + step_us, gpu_us=step.gpu_us + gpu_us)
        return replace(self, step=longer)

    @property
    def passes_us(self) -> tuple[float, float]:
        """Microseconds of all passes: of the step, and of the GPU alone."""
        return self.step.step_us - 1e6 * self.optimizer_s, self.step.gpu_us - self.optimizer_us

    def passes_s(
        self, passes: int, exchanges: int = 0, exchange_s: float = 0.0, ranks: int = 1
    ) -> float:
        """Return seconds of each of so many passes, in which the GPU waits for exchanges.

        What the host still issues is beside them; it issues them, too, and the GPUs of all `ranks`
        wait for the slowest host.
        """
        alone_s, gpu_s = (1e-6 * us / passes for us in self.passes_us)
        if not exchange_s:
            return alone_s
        host_s = slowest_s(1e-6 * self.step.host_us / passes, ranks) + exchanges * _ISSUED_S
        return max(alone_s, host_s, gpu_s + exchanges * exchange_s)


@dataclass(frozen=True)
class StepForecast:
    """A step of a GPU alone, and of all together; seconds of what is exchanged, None: nothing.

    Of a divided network `bubble_s` a stage idles; `tensor_s` among tensor ranks and `transfer_s`
    between stages are in `exchange_s`, and nothing is beside them.
    """

    alone: AloneStep
    step_s: float
    exchange_s: float | None = None
    straggling_share: float = 0.0
    bubble_s: float = 0.0
    tensor_s: float = 0.0
    transfer_s: float = 0.0

    @property
    def binds(self) -> str:
        """`gpu`, `host`, or `exchange` where most of a step is not the passes of a GPU alone."""
        if self.exchange_s is not None and self.step_s > 2e-6 * self.alone.step.step_us:
            return "exchange"
        return self.alone.step.binds

    def free_batch_size(self, batch_size: int) -> int | None:
        """Return to which batch at least the host takes longer; None: it does not bind.

        What the GPU takes grows with the batch but for the optimizer, and by less than that.
        """
        step = self.alone.step
        if step.binds != "host":
            return None
        fixed_us = min(self.alone.optimizer_us, step.host_us)
        return int(batch_size * (step.host_us - fixed_us) / max(step.gpu_us - fixed_us, 1.0))


def together(
    alone: AloneStep,
    whole: AloneStep,
    trace: GpuStep,
    network: Blocks | None,
    layout: Layout,
    precision: Precision,
    links: Topology,
    parallel: Parallel,
) -> StepForecast:
    """Return the step of all GPUs.

    Args:
        alone: step of the GPU that has most to do.
        whole: the same, had a pipeline one stage.
        trace: of `alone`.
        network: layers; None: they are not divided.
        layout: how they are.
        precision: in which parts are exchanged.
        links: of all GPUs.
        parallel: what was fitted.
    """
    known, straggling = parallel.collectives, parallel.straggling
    optimizer_s, micro_batches = alone.optimizer_s, layout.micro_batches
    bubble_s = tensor_s = transfer_s = 0.0
    stage_s = alone.passes_s(micro_batches)
    if network is not None:
        each_s, transfer_s = (
            layout.tensor_s(network, known, links),
            2 * layout.transfer_s(network, known, links),  # and its gradients back
        )
        exchanges = ceil(network.layers / layout.stages) * network.exchanges
        tensor_s = exchanges * each_s
        stage_s = alone.passes_s(micro_batches, exchanges, each_s, layout.tensor) + transfer_s
        of_all = network.layers * network.exchanges
        all_s = whole.passes_s(micro_batches, of_all, each_s, layout.tensor)
        others_s = all_s + layout.stages * transfer_s - stage_s
        bubble_s = max(others_s, 0.0) / layout.virtual_stages
    is_divided = layout.is_divided or layout.zero > 0
    # What is computed in half precision is exchanged in it.
    dtype = precision if is_divided and precision in HALF else None
    trained, frozen = trace.exchanged_bytes(dtype)
    shards = layout.shards if layout.zero == ALL_DIVIDED else layout.replicas
    among = layout.topology_of(shards, links)
    copies = None
    if shards < layout.replicas:
        share = layout.topology_of(layout.replicas, links).network_bps / among.devices
        copies = replace(links, devices=1, nodes=layout.replicas // shards, network_bps=share)
    scatters = 0 < layout.zero < ALL_DIVIDED
    exchange = Exchange(
        trained,
        known,
        among,
        () if scatters else frozen,  # whole on each GPU
        scatters=scatters,
        scatters_passes=layout.zero == GRADIENTS_DIVIDED,
        copies=copies,
        ranks=layout.ranks,
    )
    passes = Passes(stage_s, optimizer_s, micro_batches)
    if layout.zero == ALL_DIVIDED:
        exchange_s = micro_batches * (2 * sum(exchange.gathers_s) + sum(exchange.scatters_s))
        step_s = sharded_s(passes, exchange, straggling)
    else:
        times = micro_batches if exchange.scatters_passes else 1
        exchange_s = times * sum(reduction_s for _, reduction_s in exchange.reductions)
        exchange_s += sum(exchange.gathers_s) if scatters else 0.0
        step_s = distributed_s(passes, exchange, straggling)
    slower = straggling_share(exchange, straggling)
    return StepForecast(
        alone,
        step_s + bubble_s * (1 + slower),
        exchange_s + micro_batches * (tensor_s + transfer_s),
        slower,
        bubble_s,
        micro_batches * tensor_s,
        micro_batches * transfer_s,
    )
