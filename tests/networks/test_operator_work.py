"""Work of operators that PyTorch counts as nothing: by hand, and beside what they consist of."""

from collections.abc import Callable
from functools import partial
from math import log2
from typing import Any

import pytest
import torch
from pytorchcv.model_provider import get_model
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn import functional
from torch.utils.flop_counter import FlopCounterMode

from models.gpu_step.operators import work_of
from networks.gpu_steps import GpuStep
from networks.gpu_trace import trace_step
from networks.pytorch_graph import step_operators
from networks.traced import TracedForward, fields_of
from tests.exhaustive import exhaustive
from tests.networks.test_primitive_graph import Forward as OfParts

BATCH, STEPS, FEATURES, HIDDEN = 2, 7, 24, 32
Made = Callable[[], nn.Module]


class Forward(nn.Module):
    """A function of images or sequences, with a matrix of its own."""

    def __init__(self, forward: Callable[[Tensor, Tensor], Tensor], *shape: int) -> None:
        super().__init__()
        kind = torch.float32 if shape[0] > 0 else torch.complex64
        self.weight = nn.Parameter(torch.zeros([abs(size) for size in shape], dtype=kind))
        self._function = forward

    def forward(self, given: Tensor) -> Tensor:
        """Return what the function makes of it."""
        return self._function(given, self.weight)


def traced(made: Made, *shape: int) -> TracedForward:
    with FakeTensorMode():
        return fields_of(made(), (torch.zeros(BATCH, *shape),), "hand", 0, BATCH)


def flops(forward: TracedForward) -> float:
    return float(sum(node["flops"] for node in forward.graph["nodes"]))


LAYERS: list[tuple[Any, dict[str, int | bool], int]] = [
    # Of each step: gates x hidden x (what it reads + its state), by layers and directions.
    (nn.LSTM, {}, 4 * HIDDEN * (FEATURES + HIDDEN)),
    (nn.GRU, {}, 3 * HIDDEN * (FEATURES + HIDDEN)),
    (nn.RNN, {}, HIDDEN * (FEATURES + HIDDEN)),
    (nn.LSTM, {"num_layers": 2}, 4 * HIDDEN * (FEATURES + HIDDEN + HIDDEN + HIDDEN)),
    (nn.GRU, {"bidirectional": True}, 2 * 3 * HIDDEN * (FEATURES + HIDDEN)),
    (
        nn.GRU,
        {"num_layers": 2, "bidirectional": True},
        2 * 3 * HIDDEN * (FEATURES + HIDDEN + 2 * HIDDEN + HIDDEN),
    ),
    # A projection to 8 numbers is the state, too.
    (nn.LSTM, {"proj_size": 8}, 4 * HIDDEN * (FEATURES + 8) + 8 * HIDDEN),
]


@pytest.mark.parametrize(("kind", "options", "products"), LAYERS)
def test_a_recurrent_layer_is_one_node_with_the_products_of_all_steps(
    kind: Any, options: dict[str, int | bool], products: int
) -> None:
    def made() -> nn.Module:
        layers: nn.Module = kind(FEATURES, HIDDEN, batch_first=True, **options)
        return layers

    forward = traced(made, STEPS, FEATURES)
    assert [node["type"] for node in forward.graph["nodes"]] == ["input", "linear"]
    node = forward.graph["nodes"][1]
    assert node["flops"] == 2 * STEPS * products
    assert node["parameters"] == sum(parameter.numel() for parameter in made().parameters())
    results = int(options.get("proj_size", HIDDEN)) * (1 + bool(options.get("bidirectional")))
    assert node["output_elements"] == STEPS * results
    assert forward.graph["edges"] == [(0, 1)]
    assert forward.unmeasured == [f"aten::{kind.__name__.lower()}".replace("rnn", "rnn_tanh")]
    assert not forward.unknown_flops
    # As unrolled by PyTorch, whose products its own counter knows.
    cells = kind(FEATURES, HIDDEN, batch_first=True, **options)
    with torch.backends.mkldnn.flags(enabled=False), FlopCounterMode(display=False) as counter:
        cells(torch.zeros(BATCH, STEPS, FEATURES))
    assert counter.get_total_flops() == BATCH * node["flops"]


def test_what_follows_a_recurrent_layer_reads_its_results_and_states() -> None:
    def both(own: Any, given: Tensor) -> Tensor:
        results, (state, _) = own.cells(given)
        return torch.as_tensor(own.head(results) + state.sum())

    def made() -> nn.Module:
        return OfParts(both, cells=nn.LSTM(4, 6), head=nn.Linear(6, 3, bias=False))

    model = traced(made, 5, 4)
    assert [node["type"] for node in model.graph["nodes"]] == ["input", "linear", "linear", "sum"]
    assert model.graph["edges"] == [(0, 1), (1, 2), (1, 3), (2, 3)]


def test_the_function_of_recurrent_layers_is_as_before_once_it_is_traced() -> None:
    traced(lambda: nn.GRU(4, 4), 3, 4)
    results, _ = nn.GRU(4, 4)(torch.rand(3, 2, 4))
    assert results.abs().sum() > 0


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU])
def test_a_training_step_of_recurrent_layers_has_three_times_their_products(kind: Any) -> None:
    reads = OfParts(
        lambda own, given: own.cells(own.into(given))[0][:, -1],
        into=nn.Linear(8, 8, bias=False),
        cells=kind(8, 16, batch_first=True),
    )
    # 2 to the results, 2 to the gradients of matrices; the batch itself needs none.
    into = BATCH * 5 * (2 + 2) * 8 * 8
    gates = 4 if kind is nn.LSTM else 3
    cells = BATCH * 5 * 2 * gates * 16 * (8 + 16)
    operators = step_operators(reads, torch.rand(BATCH, 5, 8), torch.tensor([0, 1]))
    counted = sum(operator.flops or 0.0 for operator in operators)
    # Unrolled, the gradient of the first state is not computed.
    assert 0.95 * (into + 3 * cells) <= counted <= into + 3 * cells
    if kind is nn.LSTM:
        types = {operator.type: operator.flops for operator in operators}
        assert types["aten::mkldnn_rnn_layer"] == cells
        assert types["aten::mkldnn_rnn_layer_backward"] == 2 * cells


def test_fourier_transforms_and_complex_parameters() -> None:
    def filtered(given: Tensor, weight: Tensor) -> Tensor:
        return torch.fft.irfft2(torch.fft.rfft2(given) * weight)

    forward = traced(lambda: Forward(filtered, -3, 16, 9), 3, 16, 16)
    kinds = [node["type"] for node in forward.graph["nodes"]]
    assert kinds == ["input", "matmul", "scale", "matmul"]
    forth, scale, back = forward.graph["nodes"][1:]
    assert forth["flops"] == back["flops"] == 2.5 * 3 * 256 * log2(256)
    assert forth["output_elements"] == 2 * 3 * 16 * 9
    assert scale["parameters"] == forward.graph["parameter_count"] == 2 * 3 * 16 * 9
    assert forward.unmeasured == ["aten::_fft_r2c", "aten::_fft_c2r"]


def test_a_complex_product_is_four_real_ones() -> None:
    def product(given: Tensor, weight: Tensor) -> Tensor:
        return torch.fft.fft(given) @ weight

    forward = traced(lambda: Forward(product, -8, 5), 8)
    transform, matrix = forward.graph["nodes"][1:]
    # Of real numbers, half as many as of complex ones.
    assert transform["flops"] == 5 / 2 * 8 * log2(8)
    assert (matrix["type"], matrix["flops"]) == ("linear", 4 * 2 * 8 * 5)


def test_attention_of_processors_has_its_two_products() -> None:
    def attention(given: Tensor, weight: Tensor) -> Tensor:
        heads = (given * weight).view(BATCH, 6, 4, 8).transpose(1, 2)
        return functional.scaled_dot_product_attention(heads, heads, heads)

    forward = traced(lambda: Forward(attention, 32), 6, 32)
    node = forward.graph["nodes"][-1]
    assert (node["type"], node["flops"]) == ("attention", 2 * 2 * 4 * 6 * 6 * 8)
    step = step_operators(
        nn.Sequential(Forward(attention, 32), nn.Flatten()),
        torch.rand(2, 6, 32),
        torch.zeros(2).long(),
    )
    (backward,) = (operator for operator in step if operator.type.endswith("for_cpu_backward"))
    assert backward.flops == BATCH * 5 * 2 * 4 * 6 * 6 * 8


@pytest.mark.parametrize(
    ("function", "shape", "counted"),
    [
        # For each of eight outputs a row by a matrix, and what comes of it by a column.
        (lambda x, w: functional.bilinear(x, x, w), (8, 3, 3), 2 * 8 * (3 * 3 + 3)),
        (lambda x, w: torch.cdist(x[:, None], w[None], p=1.0), (8, 3), 3 * 8 * 3),
        (lambda x, w: functional.softmax(x * w, -1).cumsum(-1), (3,), 0),
        (lambda x, w: functional.pad(torch.roll(x, 1, 0), (1, 1))[:, :3] * w, (3,), 0),
    ],
)
def test_operators_are_counted_by_formulas_or_what_they_consist_of(
    function: Callable[[Tensor, Tensor], Tensor], shape: tuple[int, ...], counted: int
) -> None:
    forward = traced(lambda: Forward(function, *shape), 3)
    assert (flops(forward), forward.unknown_flops) == (counted, {})


@torch.library.custom_op("work::two_products", mutates_args=())
def two_products(x: Tensor, w: Tensor) -> Tensor:
    return torch.relu(x @ w) @ w.t()


@two_products.register_fake
def _(x: Tensor, w: Tensor) -> Tensor:
    return torch.empty_like(x)


two_products.register_autograd(lambda _, slope: (slope, None))


def test_operators_in_python_consist_of_what_they_call() -> None:
    forward = traced(lambda: Forward(lambda x, w: two_products(x, w), 6, 4), 6)
    assert [node["type"] for node in forward.graph["nodes"]] == ["input", "linear", "linear"]
    assert (flops(forward), forward.unknown_flops) == (2 * 2 * 6 * 4, {})
    layers = nn.Sequential(nn.Linear(6, 6), Forward(lambda x, w: two_products(x, w), 6, 4))
    step = step_operators(layers, torch.rand(BATCH, 6), torch.zeros(BATCH).long())
    # Two of its own, and the gradient of the layer's matrix.
    assert [operator.type for operator in step].count("aten::mm") == 3


NETWORKS: list[tuple[Made, tuple[int, ...]]] = [
    (lambda: get_model("resnet10"), (3, 224, 224)),
    (lambda: get_model("resnext14_32x4d"), (3, 224, 224)),
    (lambda: nn.TransformerEncoderLayer(32, 4, 64, batch_first=True), (10, 32)),
    (lambda: nn.Sequential(nn.Linear(6, 8), nn.GELU(), nn.Linear(8, 4, bias=False)), (5, 6)),
    (lambda: nn.Sequential(nn.Conv3d(3, 8, 3), nn.ReLU(), nn.Conv3d(8, 4, 1)), (3, 8, 8, 8)),
    (lambda: nn.ConvTranspose2d(8, 4, 4, 2, 1, bias=False), (8, 6, 6)),
    (lambda: nn.ConvTranspose1d(8, 8, 16, 8, groups=2), (8, 20)),
    (lambda: nn.Sequential(nn.Conv1d(4, 8, 5, dilation=2), nn.GroupNorm(2, 8)), (4, 30)),
    (lambda: Forward(lambda x, w: torch.einsum("bik,kj->bij", x, w).relu(), 6, 4), (5, 6)),
]


@pytest.mark.parametrize(
    ("made", "shape"),
    [
        *NETWORKS,
        *exhaustive(
            *(
                (partial(get_model, name), (3, 224, 224))
                for name in ("mobilenetv2_w1", "densenet121", "efficientnet_b0")
            )
        ),
    ],
)
def test_forward_passes_are_as_pytorch_counts_them(made: Made, shape: tuple[int, ...]) -> None:
    """The graph of primitives, and what a GPU is asked for."""
    with FakeTensorMode():
        network, given = made(), torch.zeros(BATCH, *shape)
        with FlopCounterMode(display=False) as counter:
            network(given)
        forward = counter.get_total_flops()
        labels = torch.zeros(BATCH, dtype=torch.int64)
        step = GpuStep.of(trace_step(nn.Sequential(network, nn.Flatten()), given, labels))
    assert forward > 0
    assert BATCH * flops(traced(made, *shape)) == pytest.approx(forward, rel=1e-9)
    names = [step.operators[place] for place in step.order]
    started = next(place for place, call in enumerate(names) if "nll_loss" in call.name)
    works = [work_of(operator) for operator in names[:started]]
    assert sum(work.flops for work in works) == pytest.approx(forward, rel=1e-9)
    assert not any(operator.is_unknown for operator in names)


def test_unknown_work_is_named_with_the_most_that_it_may_be() -> None:
    forward = traced(lambda: Forward(lambda x, w: torch.linalg.inv(x * w), 6, 6), 6, 6)
    # A matrix is read, its inverse and what went wrong are written, for each of two images.
    (name,) = forward.unknown_flops
    assert name == "aten::linalg_inv_ex"
    assert forward.unknown_flops[name] == 8 * 6 * (2 * (36 + 36) + 2) / BATCH


def test_products_of_parameters_alone_are_no_work_of_an_image() -> None:
    forward = traced(lambda: Forward(lambda x, w: x @ (w @ w.t()), 6, 4), 6)
    assert flops(forward) == 2 * 6 * 6
    assert forward.unknown_flops == {"aten::mm of parameters alone": 2 * 6 * 6 * 4 / BATCH}
