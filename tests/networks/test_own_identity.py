"""Names of users' models: two whose steps ask a processor or a GPU for other operators have two."""

from collections.abc import Callable
from random import random
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import dropout, scaled_dot_product_attention, softmax

from networks import own_program
from networks.gpu_steps import GpuStep
from networks.own_model import OwnModel, model_of
from tests.networks.test_primitive_graph import Forward

Made = tuple[nn.Module, Any]


def embedded(block: Callable[[Tensor], Tensor]) -> nn.Module:
    """Return an embedding, a block that a function calls, and logits."""
    return Forward(
        lambda own, words: own.head(block(own.words(words)).mean(1)),
        words=nn.Embedding(50, 8),
        head=nn.Linear(8, 4),
    )


def traced(
    make: Callable[[int], object], batch_size: int = 4, precisions: tuple[str, ...] = ()
) -> OwnModel:
    made, mode = make(batch_size), own_program.fake_tensors()
    fields = own_program.of_torch(made, "mine:build", [batch_size], mode, precisions, make)
    return model_of("mine:build", fields)


def net(block: Callable[[Tensor], Tensor] = lambda x: x) -> Callable[[int], Made]:
    return lambda size: (embedded(block), torch.zeros(size, 6, dtype=torch.long))


def eager(x: Tensor) -> Tensor:
    q = x[:, None]
    return (softmax(q @ q.transpose(-2, -1) * 8**-0.5, -1) @ q)[:, 0]


def fused(dropped: float = 0.0, causal: bool = False) -> Callable[[Tensor], Tensor]:
    def block(x: Tensor) -> Tensor:
        q = x[:, None]
        return scaled_dot_product_attention(q, q, q, dropout_p=dropped, is_causal=causal)[:, 0]

    return block


def dilated(by: int) -> Callable[[int], Made]:
    def make(size: int) -> Made:
        layers = nn.Conv1d(3, 4, 3, padding=by, dilation=by), nn.Flatten(), nn.Linear(36, 2)
        return nn.Sequential(*layers), torch.zeros(size, 3, 9)

    return make


def custom(name: str) -> Callable[[Tensor], Tensor]:
    made: Any = torch.library.custom_op(f"stepcast_test::{name}", mutates_args=())

    def double(x: Tensor) -> Tensor:
        return 2 * x

    operator = made(double)
    operator.register_fake(torch.empty_like)
    operator.register_autograd(lambda _, slope: 2 * slope)
    return operator


def evaluated(size: int) -> Made:
    model = embedded(lambda x: dropout(x, 0.1, training=False))
    return model, torch.zeros(size, 6, dtype=torch.long)


def test_other_operators_have_other_names_and_the_same_have_one() -> None:
    made = {
        "plain": net(),
        "dropout": net(lambda x: dropout(x, 0.1)),
        "clones": net(lambda x: x.clone()),
        "eager": net(eager),
        "fused": net(fused()),
        "fused, causal": net(fused(causal=True)),
        "fused, dropout": net(fused(dropped=0.1)),
        # In float32 this is nothing, under autocast it casts.
        "cast": net(lambda x: (x @ x.transpose(1, 2)).float() @ x),
        "not cast": net(lambda x: (x @ x.transpose(1, 2)) @ x),
        "detached": net(lambda x: x + x.detach()),
        "not detached": net(lambda x: x + x),
        "own operator": net(custom("one")),
        "another operator": net(custom("other")),
        "dilated by 1": dilated(1),
        "dilated by 2": dilated(2),
    }
    names = {name: traced(make).dnn for name, make in made.items()}
    assert len(set(names.values())) == len(made), names
    for name in ("plain", "eager", "fused, causal", "own operator", "dilated by 2"):
        assert traced(made[name], 5).dnn == names[name], "whatever batch it is asked for"
    assert traced(evaluated).dnn == names["plain"]


def test_factors_that_are_drawn_at_random_change_no_name() -> None:
    names = {traced(net(lambda x: x * (1 + random()))).dnn for _ in range(2)}
    assert len(names) == 1


@pytest.mark.parametrize("embedding", [nn.Embedding, nn.EmbeddingBag])
def test_sparse_gradients_are_refused_by_name(embedding: Any) -> None:
    def make(size: int) -> Made:
        return nn.Sequential(embedding(50, 8, sparse=True), nn.Flatten(), nn.LazyLinear(3)), words

    def initialized(size: int) -> Made:
        layers = [embedding(50, 8, sparse=sparse), nn.Flatten()]
        wide = nn.Sequential(*layers)(words).shape[1]
        return nn.Sequential(*layers, nn.Linear(wide, 3)), words

    words = torch.zeros(4, 6, dtype=torch.long)
    sparse = True
    with pytest.raises(ValueError, match="mine:build: it has sparse gradients: leave sparse=True"):
        traced(initialized)
    sparse = False
    assert traced(initialized).parameter_count
    with pytest.raises(ValueError, match="has no shape yet: call the model"):
        traced(make)


def add_up(own: Any, nodes: Tensor, edges: Tensor) -> Tensor:
    """Return what edges bring to each node."""
    return torch.zeros(len(nodes), 4).index_add(0, edges[1], own.into(nodes)[edges[0]])


class Bag(nn.EmbeddingBag):
    """Words of all samples in a row, and where each begins."""

    def forward(self, words: Tensor, offsets: Tensor) -> Tensor:  # type: ignore[override]
        """Return a row for each sample."""
        return super().forward(words, offsets)


@pytest.mark.parametrize(
    ("make", "sample", "not_batched", "given"),
    [
        (
            lambda size: (
                Forward(add_up, into=nn.Linear(8, 4)),
                (torch.zeros(size, 8), torch.zeros(2, 10 * size).long()),
            ),
            (8,),
            ("input 2 [2, 40]",),
            (2, 40),
        ),
        (
            # The last step of sequences, whose batch is the second dimension.
            lambda size: (
                Forward(lambda own, given: own.layers(given)[0][-1], layers=nn.LSTM(8, 4)),
                torch.zeros(70, size, 8),
            ),
            (70, 8),
            ("input 1 [70, 4, 8]",),
            (70, 4, 8),
        ),
        (
            lambda size: (
                Bag(50, 4),
                {"words": torch.zeros(9 * size).long(), "offsets": torch.arange(0, 9 * size, 9)},
            ),
            (),
            ("words [36]",),
            (36,),
        ),
    ],
)
def test_inputs_are_taken_as_the_function_gives_them(
    make: Callable[[int], Made],
    sample: tuple[int, ...],
    not_batched: tuple[str, ...],
    given: tuple[int, ...],
) -> None:
    model = traced(make, 4, ("float32",))
    assert (model.sample, model.not_batched) == (sample, not_batched)
    step = model.gpu_steps["4 float32"]
    assert isinstance(step, GpuStep)
    shapes = [tensor.shape for operator in step.operators for tensor in operator.inputs]
    assert given in shapes
    assert model.dnn == traced(make, 6).dnn


@pytest.mark.parametrize(
    ("make", "told", "why"),
    [
        (lambda size: (nn.Linear(3, 4), torch.zeros(8, 3)), True, "is the same whatever batch_s"),
        (lambda size: (nn.Linear(3, 4), torch.zeros(8, 3)), False, "it takes no argument batch_"),
    ],
)
def test_a_batch_that_was_not_asked_for_is_refused(
    make: Callable[[int], Made], told: bool, why: str
) -> None:
    mode, target = own_program.fake_tensors(), "mine:build"
    asked_again = make if told else None
    with pytest.raises(ValueError) as refused:
        own_program.of_torch(make(4), target, [4], mode, (), asked_again)
    found = "mine:build: asked for a batch of 4, it gave a tensor of shape [8, 3]"
    assert str(refused.value).startswith(found) and why in str(refused.value)
    assert "give --batch-size 8" in str(refused.value)
    assert own_program.of_torch(make(8), target, [8], mode, (), asked_again)["sample"] == [3]
    with pytest.raises(ValueError, match="asked for a batch of 16"):
        own_program.of_torch(make(8), target, [8, 16], mode, (), None)


def test_attention_without_heads_is_that_of_one_head() -> None:
    def of(dimensions: int) -> Callable[[Tensor], Tensor]:
        def block(x: Tensor) -> Tensor:
            shape = (*x.shape[:1], *[1] * (dimensions - 3), *x.shape[1:])
            q = x.reshape(shape) if dimensions > 2 else x.flatten(0, 1)
            return scaled_dot_product_attention(q, q, q).reshape(x.shape)

        return block

    attended = []
    for count in (3, 4, 5, 2):
        step = traced(net(of(count)), 4, ("float32",)).gpu_steps["4 float32"]
        assert isinstance(step, GpuStep)
        attended.append([op.inputs[:3] for op in step.operators if "fused_attention" in op.name])
    assert attended[0] == attended[1] == attended[2] != attended[3]
    assert attended[3][0][0].shape == (1, 1, 24, 8)
