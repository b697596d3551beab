"""Timed steps of modules small enough to know everything about."""

import pytest
import torch
from torch import Tensor, nn

from profilers.nodes.torch_training import Layer, Trainer

PIXELS = 3 * 4 * 4


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
    trainer = Trainer(Branching(), lambda _: batches(0.0))
    assert trainer.layers == [
        Layer("always", "Linear", PIXELS * 10 + 10, 4 * (PIXELS * 10 + 10)),
        Layer("branch", "Linear", 100, 400),
    ]
    assert [layer.name for layer in Trainer(chain(), lambda _: batches(0.0)).layers] == list("134")


def test_gradients_come_from_the_last_layer_to_the_first() -> None:
    step = Trainer(chain(), lambda _: batches(0.3)).step(2, watched=True)
    first, second, third = step.gradient_ready
    assert first is not None
    assert second is not None
    assert third is not None
    assert 0 < third < second < first <= 1
    assert min(step.forward_s, step.backward_s, step.update_s) > 0


def test_a_branch_that_was_not_taken_has_no_gradient() -> None:
    network = Branching()
    drawn = iter([0.9, 0.1, 0.9, 0.1])
    trainer = Trainer(network, lambda _: batches(next(drawn)))
    taken = [trainer.step(2, watched=True).gradient_ready for _ in range(3)]
    assert [branch is not None for _, branch in taken] == [True, False, True]
    assert all(always is not None for always, _ in taken)


def test_a_step_trains_and_nobody_goes_on_watching() -> None:
    network = chain()
    trainer = Trainer(network, lambda _: batches(0.3))
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

    trainer = Trainer(chain(), draw)
    for _ in range(3):
        step = trainer.step(2, pause_s=0.3)
        assert max(step.forward_s, step.backward_s, step.update_s) < 0.3
    assert drawn == [2, 2, 2, 2], "one before the first step, and one in each"
    trainer.step(1)
    assert drawn[4:] == [1, 1], "what was drawn in another size is not taken"


@pytest.mark.gpu
def test_a_gpu_is_timed_by_its_own_events() -> None:
    step = Trainer(chain(), lambda _: batches(0.3), "cuda:0").step(2, watched=True)
    first, second, third = step.gradient_ready
    assert first is not None
    assert second is not None
    assert third is not None
    assert 0 <= third <= second <= first <= 1
