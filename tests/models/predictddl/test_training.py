"""Training a hypernetwork: random networks run, losses fall, what was kept goes on."""

from collections.abc import Iterator
from itertools import count
from random import Random
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from models.predictddl import training
from models.predictddl.datasets import ImageDataset
from models.predictddl.hypernetwork import Hypernetwork, run
from models.predictddl.random_networks import MOST_LAYERS, draw
from warehouse.records import BadInput


@settings(max_examples=8)
@given(seed=st.integers(0, 10**6), side=st.sampled_from([8, 16]), classes=st.integers(2, 30))
def test_a_random_network_runs_with_predicted_weights(seed: int, side: int, classes: int) -> None:
    network = draw(Random(seed), image_channels=1, image_size=side, classes=classes)
    assert len(network.layers) <= MOST_LAYERS
    images = torch.zeros(2, 1, side, side)
    with torch.no_grad():
        (weights,) = Hypernetwork(classes)([network])
        assert run(network, weights, images).shape == (2, classes)
    shapes = {place: layer.shape for place, layer in enumerate(network.layers) if layer.shape}
    assert {place: weight.shape for place, weight in weights.items()} == shapes
    graph = network.graph
    assert [node.type for node in graph.nodes] == [layer.type for layer in network.layers]
    assert graph.parameter_count == sum(weight.numel() for weight in weights.values())


@pytest.fixture(autouse=True)
def one_network_an_iteration(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Train on one network and few images at a time, on one thread: more take longer."""
    monkeypatch.setattr(training, "META_BATCH", 1)
    monkeypatch.setattr(training, "IMAGES", 16)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def few(name: str = "few") -> ImageDataset:
    """Return images of two classes that differ in brightness."""
    labels = np.arange(64) % 2
    images = np.random.default_rng(0).normal(0, 0.1, (64, 1, 8, 8)) + labels[:, None, None, None]
    return ImageDataset.of(name, images, labels)


def ticking() -> SimpleNamespace:
    """Return a clock that is a second later whenever it is looked at: once an iteration."""
    seconds = count()
    return SimpleNamespace(monotonic=lambda: float(next(seconds)))


def test_losses_fall_and_training_goes_on_where_it_was_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(training, "time", ticking())
    kept: list[bytes] = []
    _, first = training.train(few(), seconds=25, keep=kept.append)
    assert first.iterations == 25 and first.loss is not None
    _, second = training.train(few(), seconds=40, keep=kept.append, kept=kept[-1])
    assert second.iterations == 40
    assert second.loss is not None and second.loss < first.loss


def test_what_was_learned_is_kept_when_somebody_interrupts() -> None:
    kept: list[bytes] = []
    images = few()

    def interrupts(text: str) -> None:
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(training, "time", ticking())
        with pytest.raises(KeyboardInterrupt):
            training.train(images, seconds=30, keep=kept.append, say=interrupts)
        _, resumed = training.train(images, seconds=13, keep=kept.append, kept=kept[-1])
    assert resumed.iterations == 13


def test_what_was_kept_of_another_type_or_is_none_is_refused() -> None:
    kept: list[bytes] = []
    training.train(few(), seconds=1e-6, keep=kept.append)
    with pytest.raises(BadInput, match="it was for few, not for other"):
        training.train(few("other"), seconds=1, keep=kept.append, kept=kept[-1])
    with pytest.raises(BadInput, match="training cannot go on from what was kept"):
        training.train(few(), seconds=1, keep=kept.append, kept=b"nothing")


def test_equal_seeds_and_iterations_come_to_equal_weights_interrupted_or_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """On however many threads, and however long it takes."""
    kept: list[bytes] = []
    threads = torch.get_num_threads()
    whole, _ = training.train(few(), seconds=1e6, iterations=16, keep=kept.append)

    def interrupts(text: str) -> None:
        assert text.startswith("few: iteration 11, loss ") and text.endswith(", 69% done")
        raise KeyboardInterrupt

    monkeypatch.setattr(training, "time", ticking())
    torch.set_num_threads(threads + 1)
    try:
        with pytest.raises(KeyboardInterrupt):
            training.train(few(), seconds=1e6, iterations=16, keep=kept.append, say=interrupts)
        resumed, progress = training.train(
            few(), seconds=1e6, iterations=16, keep=kept.append, kept=kept[-1]
        )
        assert torch.get_num_threads() == threads + 1
    finally:
        torch.set_num_threads(threads)
    assert progress.iterations == 16
    for name, value in whole.state_dict().items():
        assert torch.equal(value, resumed.state_dict()[name])


def test_the_clock_ends_what_takes_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training, "time", ticking())
    _, progress = training.train(few(), seconds=3, iterations=100, keep=lambda _: None)
    assert progress.iterations == 3
