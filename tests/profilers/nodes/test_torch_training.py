"""Timed steps of modules small enough to know everything about."""

import math

import pytest
import torch
from torch import Tensor, nn

from profilers.nodes.torch_training import Layer, Trainer, TrainingStep
from warehouse.records import TrainingWorkload

PIXELS = 3 * 4 * 4


def recipe(**fields: object) -> TrainingWorkload:
    """Return how a network is trained: in float32 by plain SGD unless told otherwise."""
    network = {"dnn": "small", "framework": "pytorch", "image_size": 4, "batch_size": 2}
    return TrainingWorkload.model_validate({**network, **fields})


PLAIN = recipe()


class Branching(nn.Module):
    """Takes its branch where the first value of a batch is above 0.5."""

    def __init__(self) -> None:
        super().__init__()
        self.always = nn.Linear(PIXELS, 10)
        self.branch = nn.Linear(10, 10, bias=False)

    def forward(self, images: Tensor) -> Tensor:
        logits = self.always(images.flatten(1))
        return self.branch(logits) if images.flatten()[0] > 0.5 else logits


def batches(first: float) -> "tuple[Tensor, Tensor]":
    """A batch of two images, all pixels alike."""
    return torch.full((2, 3, 4, 4), first), torch.tensor([1, 2])


def chain() -> nn.Sequential:
    """Three layers, one behind the other; what has no parameters is no layer."""
    return nn.Sequential(
        nn.Flatten(), nn.Linear(PIXELS, 8), nn.ReLU(), nn.Linear(8, 8), nn.Linear(8, 10)
    )


def test_layers_are_modules_with_parameters() -> None:
    trainer = Trainer(Branching(), lambda _: batches(0.0), PLAIN)
    assert trainer.layers == [
        Layer("always", "Linear", PIXELS * 10 + 10, 4 * (PIXELS * 10 + 10)),
        Layer("branch", "Linear", 100, 400),
    ]
    assert [layer.name for layer in Trainer(chain(), lambda _: batches(0.0), PLAIN).layers] == list(
        "134"
    )


def test_gradients_come_from_the_last_layer_to_the_first() -> None:
    step = Trainer(chain(), lambda _: batches(0.3), PLAIN).step(2, watched=True)
    first, second, third = (math.nan if at is None else at for at in step.gradient_ready)
    assert 0 < third < second < first <= 1
    assert min(step.forward_s, step.backward_s, step.update_s) > 0


def test_a_branch_that_was_not_taken_has_no_gradient() -> None:
    network = Branching()
    drawn = iter([0.9, 0.1, 0.9, 0.1])
    trainer = Trainer(network, lambda _: batches(next(drawn)), PLAIN)
    taken = [trainer.step(2, watched=True).gradient_ready for _ in range(3)]
    assert [branch is not None for _, branch in taken] == [True, False, True]
    assert all(always is not None for always, _ in taken)


def test_a_step_trains_and_nobody_goes_on_watching() -> None:
    network = chain()
    trainer = Trainer(network, lambda _: batches(0.3), PLAIN)
    before = [parameter.detach().clone() for parameter in network.parameters()]
    trainer.step(2, watched=True)
    assert any(not torch.equal(a, b) for a, b in zip(before, network.parameters(), strict=True))
    assert trainer.step(2).gradient_ready == []


def test_a_rest_is_part_of_no_pass_and_batches_are_drawn_in_it() -> None:
    drawn: list[int] = []

    def draw(batch_size: int) -> tuple[Tensor, Tensor]:
        drawn.append(batch_size)
        images, labels = batches(0.3)
        return images[:batch_size], labels[:batch_size]

    trainer = Trainer(chain(), draw, PLAIN)
    steps = [trainer.step(2, pause_s=0.3) for _ in range(3)]
    # A pass that had the rest would have it in each step; one may be held up by other programs.
    longest_s = [max(step.forward_s, step.backward_s, step.update_s) for step in steps]
    assert min(longest_s) < 0.3
    assert drawn == [2, 2, 2, 2], "one before the first step, and one in each"
    trainer.step(1)
    assert drawn[4:] == [1, 1], "what was drawn in another size is not taken"


@pytest.mark.gpu
def test_a_gpu_is_timed_by_its_own_events() -> None:
    step = Trainer(chain(), lambda _: batches(0.3), PLAIN, "cuda:0").step(2, watched=True)
    first, second, third = (math.nan if at is None else at for at in step.gradient_ready)
    assert 0 <= third <= second <= first <= 1


def trained(how: TrainingWorkload, steps: int = 1) -> tuple[nn.Sequential, TrainingStep]:
    """Return a network of always the same values after some steps of a recipe."""
    torch.manual_seed(0)
    network = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(16, 10))
    training = TrainingStep(network, how, "cpu")
    images, labels = torch.rand(2, 3, 4, 4), torch.tensor([1, 2])
    for _ in range(steps):
        training.run(network, training.prepared(images), labels)
    return network, training


def test_gradients_of_several_passes_add_up_to_their_mean() -> None:
    """Each has the same batch, so the step is that of one pass."""
    once, _ = trained(PLAIN)
    twice, _ = trained(recipe(accumulate=2))
    for of_one, of_two in zip(once.parameters(), twice.parameters(), strict=True):
        torch.testing.assert_close(of_one, of_two)


@pytest.mark.parametrize(
    ("name", "kind", "state"),
    [
        ("sgd", torch.optim.SGD, set()),
        ("momentum", torch.optim.SGD, {"momentum_buffer"}),
        ("adam", torch.optim.Adam, {"step", "exp_avg", "exp_avg_sq"}),
        ("adamw", torch.optim.AdamW, {"step", "exp_avg", "exp_avg_sq"}),
    ],
)
def test_optimizers_are_pytorchs_by_their_names(name: str, kind: type, state: set[str]) -> None:
    _, training = trained(recipe(optimizer=name))
    optimizer = training.optimizer
    assert isinstance(optimizer, torch.optim.Optimizer)
    assert type(optimizer) is kind
    assert {
        key
        for buffers in optimizer.state.values()
        for key, held in buffers.items()
        if held is not None
    } == state


def test_autocast_computes_in_bfloat16_and_keeps_parameters_in_float32() -> None:
    network, training = trained(recipe(precision="bfloat16"))
    seen: list[torch.dtype] = []
    network[0].register_forward_hook(lambda _, __, out: seen.append(out.dtype))
    loss = training.forward(network, torch.rand(2, 3, 4, 4), torch.tensor([1, 2]))
    assert (seen, loss.dtype) == ([torch.bfloat16], torch.float32)
    assert {parameter.dtype for parameter in network.parameters()} == {torch.float32}
    plain, _ = trained(PLAIN)
    for mixed, exact in zip(network.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(mixed, exact, atol=1e-3, rtol=1e-2)
        assert not torch.equal(mixed, exact)


def test_channels_last_is_the_format_of_weights_and_batches() -> None:
    network, training = trained(recipe(memory_format="channels_last"))
    images = training.prepared(torch.rand(2, 3, 4, 4))
    for tensor in (network[0].weight, images):
        assert isinstance(tensor, Tensor)
        assert tensor.is_contiguous(memory_format=torch.channels_last)
        assert not tensor.is_contiguous()
    words = torch.zeros(2, 5)
    assert training.prepared(words) is words


def test_a_step_of_several_passes_is_timed_as_their_sum() -> None:
    trainer = Trainer(chain(), lambda _: batches(0.3), recipe(accumulate=3))
    step = trainer.step(2, watched=True)
    assert min(step.forward_s, step.backward_s, step.update_s) > 0
    assert all(ready is not None and 0 < ready <= 1 for ready in step.gradient_ready)
