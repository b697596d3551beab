"""Operators of a step as a GPU is asked for them."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from models.gpu_step.operators import Work, work_of
from networks.extraction import register_own_model
from networks.gpu_steps import GpuStep, StepKey, gpu_steps
from networks.gpu_trace import Precision, trace_step
from networks.own_model import OwnModel
from tests.networks.test_primitive_graph import Forward


@pytest.fixture(autouse=True)
def _fake_tensors() -> Iterator[None]:
    with FakeTensorMode(allow_non_fake_inputs=True):
        yield


class _Block(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = torch.nn.LayerNorm(64)
        self.inner = torch.nn.Linear(64, 256)
        self.outer = torch.nn.Linear(256, 64)

    def forward(self, given: torch.Tensor) -> torch.Tensor:
        heads = self.norm(given).view(2, 16, 4, 16).transpose(1, 2)
        attended = torch.nn.functional.scaled_dot_product_attention(heads, heads, heads)
        hidden = self.inner(attended.transpose(1, 2).reshape(2, 16, 64))
        return self.outer(torch.nn.functional.dropout(torch.relu(hidden), 0.1))


def _step_of(
    module: torch.nn.Module, *given: torch.Tensor, precision: Precision = "float32", **options: Any
) -> GpuStep:
    """Return the step of a module that is called with tensors, of which the first is the batch."""

    class Called(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.module = module

        def forward(self, first: torch.Tensor) -> torch.Tensor:
            out = self.module(first, *given[1:])
            return torch.view_as_real(out).flatten(1) if out.is_complex() else out.flatten(1)

    labels = torch.zeros(len(given[0]), dtype=torch.int64)
    return GpuStep.of(trace_step(Called(), given[0], labels, precision, **options))


def _traced(precision: Precision) -> GpuStep:
    return _step_of(_Block(), torch.randn(2, 16, 64), precision=precision)


def _calls(trace: GpuStep) -> list[Work]:
    return [work_of(trace.operators[place]) for place in trace.order]


def _flops(trace: GpuStep) -> float:
    return sum(work.flops * work.repeats for work in _calls(trace))


def _names(trace: GpuStep) -> Counter[str]:
    return Counter(work.name for work in _calls(trace) if work.kind != "none")


def test_each_tensor_of_a_call_has_a_storage_and_forward_ends_before_backward() -> None:
    trace = _traced("bfloat16")
    assert trace.flow is not None
    calls = [trace.operators[number] for number in trace.order]
    touched = sum(len(call.inputs) + len(call.outputs) for call in calls)
    assert len(trace.flow.storages) == touched and min(trace.flow.storages) >= 0
    names = [call.name for call in calls]
    first_backward = next(at for at, name in enumerate(names) if name.endswith("_backward"))
    last_forward = next(at for at, name in enumerate(names) if name.startswith("nll_loss"))
    assert last_forward < trace.flow.forward <= first_backward
    assert set(trace.flow.gradients) < set(trace.flow.divided)


def test_a_parameter_that_gets_no_gradient_is_not_trained() -> None:
    parts = {"used": torch.nn.Linear(8, 8), "unused": torch.nn.Linear(8, 32)}
    step = _step_of(Forward(lambda own, given: own.used(given), **parts), torch.zeros(4, 8))
    assert [sum(each.numbers for each in held) for held in (step.parameters, step.frozen)] == [
        *(8 * 8 + 8, 8 * 32 + 32)
    ]


def test_products_of_forward_and_backward() -> None:
    works = _calls(_traced("float32"))
    products = [call for call in works if call.kind == "matmul"]
    assert len(products) == 6
    assert sum(call.flops for call in products) == 3 * 2 * 2 * (32 * 64 * 256)


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_attention_and_dropout_are_one_operator_each_way(precision: Precision) -> None:
    layer = torch.nn.TransformerEncoderLayer(64, 4, 256, dropout=0.1, batch_first=True)
    for module, dropouts in ((_Block(), 1), (layer, 3)):
        names = _names(_step_of(module, torch.randn(2, 16, 64), precision=precision))
        assert names["attention"] == names["attention_backward"] == 1
        assert names["native_dropout"] == names["native_dropout_backward"] == dropouts


def test_autocast_casts_weights_and_keeps_normalization_in_float32() -> None:
    trace = _traced("bfloat16")
    works = _calls(trace)
    assert {call.dtype for call in works if call.kind == "matmul"} == {"bfloat16"}
    assert {call.dtype for call in works if call.name == "layer_norm"} == {"float32"}
    casts = [place for place in trace.order if trace.operators[place].name == "_to_copy"]
    # Two weights and two biases there and their gradients back, and activations.
    assert len(casts) >= 8
    assert not any(operator.name == "_to_copy" for operator in _traced("float32").operators)


def test_all_in_half_precision_casts_nothing_and_keeps_what_the_optimizer_sees() -> None:
    """Gradients have the type that parameters are cast to; a shard's own stay as they were made."""
    module = _Shared(_Block(), torch.nn.LSTM(64, 64, batch_first=True))
    names, given = dict(module.named_parameters()), torch.randn(2, 16, 64)
    trace = _step_of(module, given, precision="bfloat16-true")
    assert all(names[name] is held for name, held in module.named_parameters())
    assert {held.dtype for held in module.parameters()} == {torch.float32}
    again = _step_of(module, given)
    assert {call.dtype for call in _calls(trace) if call.kind == "matmul"} == {"bfloat16"}
    assert {tensor.dtype for tensor in trace.parameters} == {"float32"}
    assert "_to_copy" not in _names(trace)
    assert trace.peak_bytes == pytest.approx(again.peak_bytes / 2, rel=0.1)
    assert trace.parameters == again.parameters


@pytest.mark.parametrize("asked", ["float32", "bfloat16"])
def test_a_model_in_half_precision_trains_without_autocast(asked: Precision) -> None:
    given = torch.randn(2, 16, 64, dtype=torch.bfloat16)
    trace = _step_of(_Block().bfloat16(), given, precision=asked)
    assert "_to_copy" not in _names(trace)
    assert {tensor.dtype for tensor in trace.parameters} == {"bfloat16"}
    gradients = [trace.operators[place] for place in trace.order][-1].outputs
    assert {tensor.dtype for tensor in gradients} <= {"bfloat16"}


def _adapted(rank: int) -> torch.nn.Module:
    """Return a frozen layer beside an adapter of low rank, as `peft` puts it there."""
    return Forward(
        lambda own, given: own.base(given) + own.up(own.down(given)) * 2.0,
        base=torch.nn.Linear(64, 64, bias=False).requires_grad_(False),
        down=torch.nn.Linear(64, rank, bias=False),
        up=torch.nn.Linear(rank, 64, bias=False),
    )


def test_frozen_layers_go_backward_only_where_a_gradient_is_wanted() -> None:
    rows, rank = 32, 4
    module = torch.nn.Sequential(_adapted(rank), _adapted(rank))
    trace = _step_of(module, torch.zeros(rows, 64))
    whole, low = 2 * rows * 64 * 64, 2 * rows * 64 * rank
    # Frozen: forward of both, and the gradient of what the second is given. Adapters: forward,
    # gradients of both matrices and of what lies between them; the second's input, too.
    assert _flops(trace) == 3 * whole + (5 + 6) * low
    assert [tensor.numbers for tensor in trace.parameters] == [64 * rank] * 4
    assert [tensor.numbers for tensor in trace.frozen] == [64 * 64] * 2
    assert trace.units == (0, *[64 * 64 + 2 * 64 * rank] * 2)
    # Gradients of 4 kB in all, no more than adapters; what is frozen has none.
    assert trace.peak_bytes - trace.without_gradients_bytes <= 4 * 4 * 64 * rank


class _Recomputed(torch.nn.Module):
    """A block whose activations are kept (None), or computed again in one of two ways."""

    def __init__(self, reentrant: bool | None) -> None:
        super().__init__()
        self.inner, self.outer = torch.nn.Linear(64, 256), torch.nn.Linear(256, 64)
        self.dropout, self._reentrant = torch.nn.Dropout(0.1), reentrant

    def forward(self, given: torch.Tensor) -> torch.Tensor:
        if self._reentrant is None:
            return self._block(given)
        again = torch.utils.checkpoint.checkpoint(self._block, given, use_reentrant=self._reentrant)
        return torch.as_tensor(again)

    def _block(self, given: torch.Tensor) -> torch.Tensor:
        heads = given.view(2, 16, 4, 16).transpose(1, 2)
        attended = torch.nn.functional.scaled_dot_product_attention(heads, heads, heads)
        hidden = self.inner(attended.transpose(1, 2).reshape(2, 16, 64))
        return torch.as_tensor(given + self.outer(self.dropout(torch.relu(hidden))))


@pytest.mark.parametrize("precision", ["float32", "bfloat16", "bfloat16-true"])
def test_checkpointed_activations_are_computed_twice_and_kept_once(precision: Precision) -> None:
    blocks, rows, traces = 8, 32, {}
    for reentrant in (None, True, False):
        layers = [_Recomputed(reentrant) for _ in range(blocks)]
        module = torch.nn.Sequential(torch.nn.Linear(64, 64), *layers)
        traces[reentrant] = _step_of(module, torch.zeros(2, 16, 64), precision=precision)
    product = 2 * rows * 64 * 256
    attention = sum(work.flops for work in _calls(traces[None]) if work.kind == "attention")
    again = _flops(traces[True]) - _flops(traces[None])
    assert again == blocks * 2 * product + attention
    # What is not re-entrant stops where it has all that backward needs: before the last product.
    assert _flops(traces[False]) - _flops(traces[None]) == again - blocks * product
    for reentrant in (True, False):
        names = _names(traces[reentrant])
        assert names["native_dropout"] == names["attention"] == 2 * blocks
        assert names["native_dropout_backward"] == names["attention_backward"] == blocks
        assert traces[reentrant].activation_bytes < traces[None].activation_bytes / 3


class _Shared(torch.nn.Module):
    """A block twice, between recurrent layers that keep a list of their parameters beside."""

    def __init__(self, block: torch.nn.Module, layers: torch.nn.Module) -> None:
        super().__init__()
        self.first = self.last = block
        self.layers = layers

    def forward(self, given: torch.Tensor) -> torch.Tensor:
        return torch.as_tensor(self.last(self.layers(self.first(given))[0])[:, -1])


def test_memory_has_parameters_gradients_and_what_backward_keeps() -> None:
    trace = _traced("float32")
    parameters = sum(tensor.bytes for tensor in trace.parameters)
    assert parameters == 4 * (2 * 64 + 64 * 256 + 256 + 256 * 64 + 64)
    hidden = 4 * 2 * 16 * 256
    assert parameters + hidden < trace.peak_bytes < 2 * parameters + 12 * hidden


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_gradients_and_copies_in_half_precision_are_no_activations(precision: Precision) -> None:
    """Of a sample through 8 layers of 512 x 512 no more lives than a few rows of 512 numbers."""
    module = torch.nn.Sequential(*(torch.nn.Linear(512, 512) for _ in range(8)))
    trace = _step_of(module, torch.randn(1, 512), precision=precision)
    parameters_bytes = sum(tensor.bytes for tensor in trace.parameters)
    assert trace.peak_bytes > 2 * parameters_bytes
    assert parameters_bytes < trace.without_gradients_bytes < 1.6 * parameters_bytes
    assert trace.activation_bytes < 64 * 4 * 512
    assert trace.units == (0, *[512 * 512 + 512] * 8)


def test_units_are_the_layers_of_lists_and_what_is_in_none_comes_first() -> None:
    stage = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU())
    stacked = Forward(
        lambda own, given: own.stages(own.first(given)),
        first=torch.nn.Linear(4, 4),
        layers=torch.nn.ModuleList(_Block() for _ in range(2)),
        stages=torch.nn.Sequential(stage, torch.nn.Linear(8, 4)),
    )
    step = _step_of(stacked, torch.randn(2, 4))
    block = 2 * 64 + 64 * 256 + 256 + 256 * 64 + 64
    assert step.units == (4 * 4 + 4, block, block, 4 * 8 + 8, 8 * 4 + 4)


def test_a_value_that_is_asked_for_is_noted() -> None:
    asking = Forward(
        lambda own, given: own.into(given * (2 if given.sum().item() > 0 else 1)),
        into=torch.nn.Linear(4, 4),
    )
    trace = _step_of(asking, torch.randn(2, 4))
    names = [trace.operators[place].name for place in trace.order]
    assert names.count("_local_scalar_dense") == 1


def test_a_network_by_name_is_traced_in_another_process() -> None:
    key = StepKey("small_cnn", 4, 32, "float32")
    step = gpu_steps([key])[key]
    assert sum(tensor.bytes for tensor in step.parameters) < step.peak_bytes
    names = [step.operators[place].name for place in step.order]
    assert (names.count("convolution"), names.count("convolution_backward")) == (3, 3)
    assert gpu_steps([key])[key] is step


def test_a_users_model_has_the_steps_that_were_traced() -> None:
    step: dict[str, Any] = {
        "operators": [["relu", [[[2], "float32"]], [], False]],
        "order": [0],
        "parameters": [[[3], "float32"]],
        "frozen": [],
        "peak_bytes": 512,
        "without_gradients_bytes": 512,
        "activation_bytes": 512,
        "units": [3],
    }
    steps: dict[str, GpuStep | str] = {"2 float32": GpuStep.of(step), "4 float32": "no memory"}
    register_own_model(OwnModel("own-gpu1", "pytorch", 0, 0, None, {}, gpu_steps=steps))
    key = StepKey("own-gpu1", 2, 0, "float32")
    assert gpu_steps([key])[key].operators[0].inputs[0].bytes == 8
    with pytest.raises(ValueError, match="no memory"):
        gpu_steps([key._replace(batch_size=4)])
    with pytest.raises(ValueError, match="not traced for a GPU"):
        gpu_steps([key._replace(batch_size=8)])


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
@pytest.mark.parametrize(
    ("kind", "options"),
    [
        (torch.nn.GRU, {}),
        (torch.nn.LSTM, {}),
        (torch.nn.LSTM, {"bidirectional": True, "proj_size": 16}),
        (torch.nn.RNN, {"bidirectional": True}),
    ],
)
def test_recurrent_layers_are_an_operator_each_way_however_long_their_sequences(
    kind: Any, options: dict[str, Any], precision: Precision
) -> None:
    """All steps together have the products of all matrices: one forward, two backward."""
    batch, steps = 4, 2000
    layers = kind(32, 64, num_layers=2, batch_first=True, **options)
    module = Forward(lambda own, given: own.layers(given)[0][:, -1], layers=layers)
    trace = _step_of(module, torch.randn(batch, steps, 32), precision=precision, most=200)
    matrices = sum(weight.numel() for weight in layers.parameters() if weight.ndim == 2)
    forward, backward = (call for call in _calls(trace) if "rnn" in call.name)
    assert (forward.name, backward.name) == ("_cudnn_rnn", "_cudnn_rnn_backward")
    assert forward.dtype == backward.dtype == precision
    directions = 2 if options.get("bidirectional") else 1
    assert forward.repeats == 2 * directions * steps and backward.repeats == 2 * forward.repeats
    products = 2 * batch * steps * matrices
    assert forward.flops * forward.repeats == pytest.approx(products, rel=0.02)
    assert backward.flops * backward.repeats == pytest.approx(2 * products, rel=0.02)
    # Gates of all steps are there until backward.
    assert trace.peak_bytes > batch * steps * 64 * (2 if precision == "bfloat16" else 4)


def test_packed_sequences_are_refused() -> None:
    def packed(own: Any, given: torch.Tensor) -> torch.Tensor:
        sizes = torch.full((given.shape[0],), given.shape[1])
        sequence = torch.nn.utils.rnn.PackedSequence(given.flatten(0, 1), sizes)
        return torch.as_tensor(own.layers(sequence)[1][0][-1])

    with pytest.raises(ValueError, match="packs sequences, of lengths that"):
        _step_of(Forward(packed, layers=torch.nn.LSTM(8, 16)), torch.randn(50, 4, 8))


@torch.library.custom_op("steps::two_products", mutates_args=())
def two_products(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return torch.relu(x @ w) @ w.t()


@two_products.register_fake
def _(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(x)


@torch.library.custom_op("steps::values", mutates_args=())
def values(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return torch.from_numpy(x.numpy() @ w.numpy())


@values.register_fake
def _(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return x.new_empty(len(x), w.shape[1])


class _Custom(torch.nn.Module):
    """Somebody's operator between two layers; its gradient is that of a layer."""

    def __init__(self, operator: Any) -> None:
        super().__init__()
        self.first, self.last = torch.nn.Linear(64, 64), torch.nn.Linear(64, 8)
        self.weight = torch.nn.Buffer(torch.zeros(64, 64))
        self._operator = operator

    def forward(self, given: torch.Tensor) -> torch.Tensor:
        hidden = self.first(given)
        return self.last(hidden + self._operator(hidden.detach(), self.weight))


def test_operators_of_others_in_python_are_those_that_they_call() -> None:
    trace = _step_of(_Custom(two_products), torch.zeros(32, 64))
    # Two products of its own; of the layers one forward, and the gradients that are needed.
    products = 2 * 32 * 64 * (2 * 64 + 2 * 64 + 3 * 8)
    assert _flops(trace) == products
    assert not any(operator.is_unknown for operator in trace.operators)


def test_operators_of_others_that_cannot_be_followed_have_at_most_so_much_work() -> None:
    trace = _step_of(_Custom(values), torch.zeros(32, 64))
    (unknown,) = (operator for operator in trace.operators if operator.is_unknown)
    assert unknown.name == "steps::values"
    # Eight operations for each number, at each place along the longest side (64).
    assert work_of(unknown).kind == "other"
    assert work_of(unknown).flops == 8 * 64 * (32 * 64 + 64 * 64 + 32 * 64)


@pytest.mark.parametrize(("groups", "stride", "out"), [(1, 2, 16), (1, 1, 32), (4, 2, 16)])
def test_transposed_convolutions_meet_each_input_once(groups: int, stride: int, out: int) -> None:
    """As many products as input pixels x weights, whatever the side of what comes out."""
    layer = torch.nn.ConvTranspose2d(32, out, 4, stride=stride, groups=groups, bias=False)
    module = torch.nn.Sequential(torch.nn.Conv2d(3, 32, 1, bias=False), layer)
    trace = _step_of(module, torch.zeros(2, 3, 8, 8))
    into = 2 * 2 * 64 * 3 * 32
    up = 2 * 2 * 64 * 32 * (out // groups) * 16
    assert _flops(trace) == 2 * into + 3 * up
    forward = next(work for work in _calls(trace) if work.flops == up)
    side = (8 - 1) * stride + 4
    assert (forward.rows, forward.columns, forward.batch) == (2 * side**2, out // groups, groups)
    inner = forward.flops / (2 * forward.batch * forward.rows * forward.columns)
    assert forward.inner == pytest.approx(inner, abs=0.5)


def test_complex_products_are_four_real_ones_and_numbers_are_two() -> None:
    class Complex(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = torch.nn.Parameter(torch.zeros(16, 32, dtype=torch.complex64))
            self.last = torch.nn.Parameter(torch.zeros(32, 24, dtype=torch.complex64))

        def forward(self, given: torch.Tensor) -> torch.Tensor:
            return (given.to(torch.complex64) @ self.first) @ self.last

    trace = _step_of(Complex(), torch.zeros(8, 16))
    assert [tensor.numbers for tensor in trace.parameters] == [2 * 16 * 32, 2 * 32 * 24]
    first, last = 8 * 8 * 16 * 32, 8 * 8 * 32 * 24
    assert _flops(trace) == 2 * first + 3 * last
    product = next(work for work in _calls(trace) if work.kind == "matmul")
    assert (product.dtype, product.bytes) == ("float32", 8 * (8 * 16 + 16 * 32 + 8 * 32))


def test_bilinear_layers_are_a_product_for_each_output_and_one_for_its_weights() -> None:
    batch, left, right, out = 6, 5, 7, 9
    layer = torch.nn.Bilinear(left, right, out, bias=False)
    trace = _step_of(layer, torch.zeros(batch, left), torch.zeros(batch, right))
    products = [work for work in _calls(trace) if work.kind == "matmul"]
    forward = 2 * batch * out * (left * right + right)
    # Gradients of the weights: the slope of an output times one side, by the other.
    backward = 2 * batch * out * left * right
    assert sum(work.flops for work in products) == forward + backward
    assert len(products) == 2 * out + out


@pytest.mark.parametrize("rows", [1_000, 1_000_000])
def test_bags_read_what_they_look_up_whatever_the_table(rows: int) -> None:
    module = torch.nn.EmbeddingBag(rows, 64, mode="sum")
    trace = _step_of(module, torch.zeros(32, 20, dtype=torch.int64))
    forward = next(work for work in _calls(trace) if work.name == "_embedding_bag")
    looked_up, ids = 32 * 20 * 64 * 4, 32 * 20 * 8
    assert looked_up < forward.bytes < looked_up + 32 * 64 * 4 + 3 * ids + 512
    backward = next(work for work in _calls(trace) if work.kind == "embedding_backward")
    assert backward.bytes == 3 * looked_up + rows * 64 * 4


def test_sparse_gradients_are_refused() -> None:
    with pytest.raises(ValueError, match="sparse gradients"):
        _step_of(torch.nn.Embedding(100, 8, sparse=True), torch.zeros(4, 6, dtype=torch.int64))


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_causal_attention_skips_what_is_not_seen(precision: Precision) -> None:
    class Attention(torch.nn.Linear):
        def forward(self, given: torch.Tensor) -> torch.Tensor:
            heads = super().forward(given).view(2, 512, 4, 16).transpose(1, 2)
            return torch.nn.functional.scaled_dot_product_attention(
                heads, heads, heads, is_causal=is_causal
            ).flatten(1)

    found = {}
    for is_causal in (False, True):
        given = torch.zeros(2, 512, 64)
        works = _calls(_step_of(Attention(64, 64), given, precision=precision))
        found[is_causal] = [work for work in works if work.kind.startswith("attention")]
    for full, half in zip(found[False], found[True], strict=True):
        assert half.flops == full.flops * 513 / 1024
        assert (full.columns, half.columns) == (512, 256)


def test_models_of_transformers_are_causal_without_a_mask_though_it_is_given_ones() -> None:
    library = pytest.importorskip("transformers")
    config = library.GPT2Config(n_layer=2, n_embd=64, n_head=2, vocab_size=100, use_cache=False)
    seen = torch.ones(2, 256, dtype=torch.int64)

    masked = Forward(
        lambda own, words: own.model(words, attention_mask=seen).logits[:, -1],
        model=library.GPT2LMHeadModel(config),
    )
    step = _step_of(masked, torch.zeros(2, 256, dtype=torch.int64))
    attention = [work for work in _calls(step) if work.kind == "attention"]
    assert [work.flops for work in attention] == [2 * 2 * 2 * 64 * 256 * 257 / 2] * 2
