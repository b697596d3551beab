"""Compiled steps: chains by hand, and beside what Inductor's own scheduler makes."""

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from models.gpu_step.fusion import compiled
from models.gpu_step.operators import PRODUCTS, work_of
from models.gpu_step.step import step_work
from networks.gpu_steps import GpuStep
from networks.gpu_trace import Precision, trace_step
from networks.own_torch import exchange_tensors
from tests.models.gpu_step.blocks import Block

Made = tuple[torch.nn.Module, torch.Tensor, torch.Tensor]
ROWS, WIDTH = 2048, 64


def traced(made: Made, precision: Precision = "float32") -> GpuStep:
    module, given, labels = made
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    exchange_tensors(module.train(), mode.from_tensor)
    with mode:
        fields = trace_step(module, mode.from_tensor(given), mode.from_tensor(labels), precision)
    return GpuStep.of(json.loads(json.dumps(fields)))


def kernels(step: GpuStep) -> list[tuple[str, float]]:
    """Return names and bytes of what is launched, but products."""
    works = [work_of(step.operators[number]) for number in step.order]
    return [(work.name, work.bytes) for work in works if work.kind not in ("none", *PRODUCTS)]


class _Chain(torch.nn.Module):
    """A product, then element-wise operators, of which the last is a sum."""

    def __init__(self, function: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(WIDTH, WIDTH, bias=False)
        self.function = function

    def forward(self, given: torch.Tensor) -> torch.Tensor:
        return self.function(self.linear(given))

    @staticmethod
    def loss_of(out: torch.Tensor, _: torch.Tensor) -> torch.Tensor:
        return out.sum()


def chain(function: Callable[[torch.Tensor], torch.Tensor]) -> GpuStep:
    return compiled(
        traced((_Chain(function), torch.zeros(ROWS, WIDTH), torch.zeros(ROWS, dtype=torch.int64)))
    )


WHOLE = 4.0 * ROWS * WIDTH


def test_a_chain_reads_and_writes_once() -> None:
    step = chain(lambda given: (given.sigmoid() * 2 + 1).tanh())
    forward = [each for each in kernels(step) if each[0].startswith("fused")]
    # Forward: its input is read and summed in the same loop, by two kernels. Backward computes all
    # again of that input, and writes the gradient alone.
    (_, forward_bytes), (_, parts_bytes), (_, backward_bytes) = forward
    assert forward_bytes == pytest.approx(WHOLE, abs=64)
    assert parts_bytes < 64
    assert backward_bytes == pytest.approx(2 * WHOLE, abs=64)


def test_rows_and_what_is_made_of_their_sums_are_one_kernel() -> None:
    def normalized(given: torch.Tensor) -> torch.Tensor:
        return given * torch.rsqrt(given.pow(2).mean(-1, keepdim=True) + 1e-6)

    names = [name for name, _ in kernels(chain(lambda given: normalized(given).tanh()))]
    # Forward, the sum of all in two, and backward.
    assert names[0].startswith("fused_pow_mean") and len(names) == 4


def test_what_a_product_reads_in_backward_is_saved_and_what_is_random_is_not_drawn_again() -> None:
    module = torch.nn.Sequential(
        torch.nn.Linear(WIDTH, WIDTH), torch.nn.Dropout(0.5), torch.nn.Linear(WIDTH, WIDTH)
    )
    step = compiled(
        traced((module, torch.zeros(ROWS, WIDTH), torch.zeros(ROWS, dtype=torch.int64)))
    )
    assert sum("native_dropout" in name for name, _ in kernels(step)) == 2  # and its backward


def test_a_value_that_is_asked_for_breaks_the_graph() -> None:
    def asking(given: torch.Tensor) -> torch.Tensor:
        scaled = given.sigmoid() * 2
        return (scaled * scaled.sum().item()).tanh()

    step = chain(asking)
    names = [step.operators[number].name for number in step.order]
    assert names.count("_local_scalar_dense") == 1
    assert names.count("guards") == 3  # before, after, and backward
    work = step_work(step, "sgd", replayed=True)
    # A graph is its guards and a launch; the value, and the optimizer.
    assert np.sum(work.issued) == 3 * 2 + 1 + 1
    assert step_work(step, "sgd").issued == 1


def test_memory_is_less_by_what_is_computed_again() -> None:
    def gated(given: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.silu(given).pow(2).sqrt().tanh()

    made = _Chain(gated), torch.zeros(ROWS, WIDTH), torch.zeros(ROWS, dtype=torch.int64)
    eager = traced(made)
    step = compiled(eager)
    # Of four results that backward reads, the product's alone is kept.
    assert eager.activation_bytes - step.activation_bytes >= 2 * WHOLE
    assert step.parameters == eager.parameters and step.activation_bytes > WHOLE


def test_other_traces_are_told() -> None:
    with pytest.raises(ValueError, match="which storages"):
        compiled(GpuStep((), (), (), 0, 0, 0, (0,)))


# Inductor's own scheduler, with the rules of its backend for GPUs; nothing of it is run.


def scheduled(made: Made) -> list[float]:
    """Return bytes of each kernel that Inductor would make on an H100, but of products."""
    from functorch.compile import make_boxed_func  # type: ignore[import-untyped]
    from torch._inductor import compile_fx, config
    from torch._inductor.debug import DebugContext
    from torch._inductor.graph import GraphLowering
    from torch._inductor.runtime.hints import DeviceProperties
    from torch._inductor.virtualized import V

    found = list[float]()
    of_host = DeviceProperties.create

    def schedule(module: Any, example: Any, **_: Any) -> Any:
        mode = compile_fx.fake_tensor_prop(module, example)
        with V.set_fake_mode(mode):
            compile_fx._recursive_post_grad_passes(module, False)  # noqa: SLF001
        module.graph.output_node().meta.pop("user_visible_output_idxs", None)
        graph = GraphLowering(module, shape_env=mode.shape_env, graph_id=0)
        with (
            V.set_graph_handler(graph),
            V.set_real_inputs(example),
            V.set_debug_handler(DebugContext()),
            V.set_fake_mode(mode),
        ):
            graph.run(*example)
            graph.init_wrapper_code()
            graph._update_scheduler()  # noqa: SLF001
            for node in graph.scheduler.nodes:
                origins = [part.node.get_origin_node() for part in node.get_nodes() if part.node]
                # Processors' convolutions want weights in another layout.
                is_layout = any(origin and origin.op == "placeholder" for origin in origins)
                is_kernel = not type(node).__name__.startswith(("Extern", "Nop"))
                if is_kernel and not is_layout:
                    found.append(float(node.get_read_write_buffers_sizes()))
        return make_boxed_func(module.forward)

    def backend(module: Any, example: Any) -> Any:
        return compile_fx.compile_fx(module, example, inner_compile=schedule)

    module, given, labels = made
    as_h100 = staticmethod(lambda device: of_host(device)._replace(multi_processor_count=132))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(DeviceProperties, "create", as_h100)
        with config.patch(cpu_backend="triton", fx_graph_cache=False):
            step = torch.compile(
                lambda: torch.nn.functional.cross_entropy(module(given), labels),
                backend=backend,
                dynamic=False,
            )
            step().backward()
    return found


def transformer() -> Made:
    words, classes = torch.zeros(8, 128, dtype=torch.int64), 1000
    module = torch.nn.Sequential(
        torch.nn.Embedding(classes, WIDTH),
        Block(WIDTH, 0.1),
        torch.nn.LayerNorm(WIDTH),
        torch.nn.Linear(WIDTH, classes),
        torch.nn.Flatten(0, 1),
    )
    return module, words, words.flatten()


class _Residual(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = (
            torch.nn.Conv2d(16, 16, 3, padding=1, bias=False) for _ in range(2)
        )
        self.norms = torch.nn.ModuleList(torch.nn.BatchNorm2d(16) for _ in range(2))

    def forward(self, given: torch.Tensor) -> torch.Tensor:
        inner = torch.relu(self.norms[0](self.first(given)))
        return torch.relu(given + self.norms[1](self.second(inner)))


def residual() -> Made:
    module = torch.nn.Sequential(
        torch.nn.Conv2d(3, 16, 7, 2, 3, bias=False),
        torch.nn.BatchNorm2d(16),
        torch.nn.ReLU(),
        torch.nn.MaxPool2d(3, 2, 1),
        _Residual(),
        torch.nn.AdaptiveAvgPool2d(1),
        torch.nn.Flatten(),
        torch.nn.Linear(16, 10),
    )
    return module, torch.zeros(8, 3, 64, 64), torch.zeros(8, dtype=torch.int64)


@pytest.mark.parametrize("make", [transformer, residual])
def test_kernels_and_their_bytes_are_about_those_that_inductor_schedules(
    make: Callable[[], Made],
) -> None:
    torch.compiler.reset()
    ours, inductors = kernels(compiled(traced(make()))), scheduled(make())
    moved = sum(kernel_bytes for _, kernel_bytes in ours)
    assert len(ours) == pytest.approx(len(inductors), rel=0.2)
    assert moved == pytest.approx(sum(inductors), rel=0.15)
    eager = kernels(traced(make()))
    assert sum(kernel_bytes for _, kernel_bytes in eager) > 1.1 * moved
