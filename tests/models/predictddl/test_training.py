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


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a clock that is a second later whenever it is looked at: once an iteration."""
    monkeypatch.setattr(training, "time", SimpleNamespace(monotonic=count(0.0).__next__))


def test_losses_fall_and_training_that_is_interrupted_comes_to_the_same() -> None:
    kept: list[bytes] = []
    _, first = training.train(few(), seconds=25, keep=kept.append)
    whole, second = training.train(few(), seconds=40, keep=kept.append, kept=kept[-1])
    assert (first.iterations, second.iterations) == (25, 40)
    assert first.loss is not None and second.loss is not None and second.loss < first.loss

    def interrupts(text: str) -> None:
        assert text.startswith("few: iteration 11, loss ") and text.endswith(", 69% done")
        raise KeyboardInterrupt

    whole, _ = training.train(few(), seconds=16, keep=kept.append)
    with pytest.raises(KeyboardInterrupt):
        training.train(few(), seconds=16, keep=kept.append, say=interrupts)
    resumed, progress = training.train(few(), seconds=16, keep=kept.append, kept=kept[-1])
    assert progress.iterations == 16
    for name, value in whole.state_dict().items():
        assert torch.equal(value, resumed.state_dict()[name])


def test_what_was_kept_of_another_type_or_is_none_is_refused() -> None:
    kept: list[bytes] = []
    training.train(few(), seconds=1e-6, keep=kept.append)
    with pytest.raises(BadInput, match="it was for few, not for other"):
        training.train(few("other"), seconds=1, keep=kept.append, kept=kept[-1])
    with pytest.raises(BadInput, match="training cannot go on from what was kept"):
        training.train(few(), seconds=1, keep=kept.append, kept=b"nothing")
