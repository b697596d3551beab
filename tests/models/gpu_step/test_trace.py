"""Operators of a step as a GPU is asked for them."""

from collections import Counter

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from models.gpu_step.operators import work_of
from models.gpu_step.trace import Precision, Trace, trace_step


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


def _traced(precision: Precision) -> Trace:
    with FakeTensorMode():
        module, given = _Block(), torch.randn(2, 16, 64)
        return trace_step(module, lambda block: block(given).float().sum(), [given], precision)


def _names(trace: Trace) -> Counter[str]:
    return Counter(work.name for work in map(work_of, trace.operators) if work.kind != "none")


def test_products_of_forward_and_backward() -> None:
    works = [work_of(one) for one in _traced("float32").operators]
    products = [one for one in works if one.kind == "matmul"]
    assert len(products) == 6
    assert sum(one.flops for one in products) == 3 * 2 * 2 * (32 * 64 * 256)


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_attention_and_dropout_are_one_operator_each_way(precision: Precision) -> None:
    names = _names(_traced(precision))
    assert names["attention"] == names["attention_backward"] == 1
    assert names["native_dropout"] == names["native_dropout_backward"] == 1


def test_autocast_casts_weights_and_keeps_normalization_in_float32() -> None:
    trace = _traced("bfloat16")
    works = [work_of(one) for one in trace.operators]
    assert {one.dtype for one in works if one.kind == "matmul"} == {"bfloat16"}
    assert {one.dtype for one in works if one.name == "layer_norm"} == {"float32"}
    casts = [one for one in trace.operators if one.name == "_to_copy"]
    # Two weights and two biases there and their gradients back, and activations.
    assert len(casts) >= 8
    assert not any(one.name == "_to_copy" for one in _traced("float32").operators)


def test_memory_has_parameters_gradients_and_what_backward_keeps() -> None:
    trace = _traced("float32")
    parameters = sum(trace.parameters_bytes)
    assert parameters == 4 * (2 * 64 + 64 * 256 + 256 + 256 * 64 + 64)
    hidden = 4 * 2 * 16 * 256
    assert parameters + hidden < trace.peak_bytes < 2 * parameters + 12 * hidden


def test_a_value_that_is_asked_for_is_a_wait() -> None:
    with FakeTensorMode():
        module, given = torch.nn.Linear(4, 4), torch.randn(2, 4)

        def loss(layer: torch.nn.Module) -> torch.Tensor:
            total: torch.Tensor = layer(given).sum()
            return total * 2 if total.item() > 0 else total

        trace = trace_step(module, loss, [given])
    assert [trace.operators[at].name for at in trace.waits] == ["_local_scalar_dense"]
