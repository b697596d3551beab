"""What PyTorch's own MemTracker says of the memory of public steps, beside forecasts of it.

Both trace a network without values in this process. The tracker sees the processor's kernels, as
where no GPU is at hand: attention with dropout keeps its probabilities there.
"""

import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from importlib.util import find_spec
from statistics import median
from typing import Any

from benchmarks.gpu_figures import Figure, figure, mean
from benchmarks.gpu_sources import memory_of
from models.gpu_step.measurements import MeasuredStep
from networks.gpu_steps import GpuStep
from warehouse.records import TrainingWorkload

_NETWORKS = 6
"""A minute of processor time."""


def tracked(steps: Sequence[MeasuredStep]) -> Iterator[Figure]:
    """Yield memory of the largest batch of networks of few calls, if such can be built here."""
    if find_spec("transformers") is None:
        return
    largest = {
        step.network: step
        for step in sorted(steps, key=lambda step: step.batch)
        if step.peak_bytes is not None and step.memory_format == "contiguous"
    }
    chosen = sorted(largest.values(), key=lambda step: len(step.trace.order))[:_NETWORKS]
    both = [(step.peak_bytes or 1, _ours(step), _by_tracker(step)) for step in chosen]
    errors, others = (
        [answers[place][0] / measured - 1 for measured, *answers in both] for place in (0, 1)
    )
    ours_s, its_s = (median(answers[place][1] for _, *answers in both) for place in (0, 1))
    nearer = sum(abs(ours) < abs(its) for ours, its in zip(errors, others, strict=True))
    yield figure(
        "gpu_h100: peak memory of the largest batch of networks of the fewest calls, traced anew",
        errors,
        "10 %, largest 25 %",
        beside=f"PyTorch's MemTracker {mean(others):.1f} % (n = {len(both)}; ours is nearer in "
        f"{nearer} rows), {its_s:.1f} s an answer, ours {ours_s:.1f} s",
    )


def _ours(step: MeasuredStep) -> tuple[int, float]:
    """Return bytes, and the seconds of processor time until they are known."""
    from networks.gpu_trace import trace_step

    def answer(network: Any, given: Any, labels: Any) -> int:
        traced = GpuStep.of(trace_step(network, given, labels, step.precision))  # type: ignore[arg-type]
        return memory_of(replace(step, trace=traced)).allocated_bytes

    return _answered(step, answer)


def _by_tracker(step: MeasuredStep) -> tuple[int, float]:
    from torch.distributed._tools.mem_tracker import MemTracker

    from profilers.nodes.torch_training import TrainingStep

    recipe = TrainingWorkload(
        dnn=step.network,
        framework="pytorch",
        image_size=step.size,
        batch_size=step.batch,
        precision=step.precision,
        optimizer=step.optimizer,
        accumulate=step.accumulate,
    )

    def answer(network: Any, given: Any, labels: Any) -> int:
        training, tracker = TrainingStep(network, recipe, "cpu"), MemTracker()
        for group in training.optimizer.param_groups:
            group |= {"foreach": False, "fused": True}  # others ask for values
        tracker.track_external(network, training.optimizer, given, labels)
        with tracker:
            for _ in range(2):  # the optimizer has its state in the second
                tracker.reset_mod_stats()
                training.run(network, given, labels)
        return int(next(iter(tracker.get_tracker_snapshot("peak").values()))["Total"])

    return _answered(step, answer)


def _answered(step: MeasuredStep, answer: Callable[[Any, Any, Any], int]) -> tuple[int, float]:
    from torch._subclasses.fake_tensor import FakeTensorMode

    from benchmarks.gpu_traces import logits_network

    started, mode = time.process_time(), FakeTensorMode(allow_non_fake_inputs=True)
    network, given, labels = logits_network(step.network, step.size, step.batch, mode)
    with mode, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # kernels of autocast are replaced
        size_bytes = answer(network.train(), given, labels)
    return size_bytes, time.process_time() - started
