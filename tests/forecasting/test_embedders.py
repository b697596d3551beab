"""Embedders by type of dataset: the one that is shipped, and others trained in a home."""

from pathlib import Path

import numpy as np
import pytest

from forecasting import embedders
from models.predictddl import training
from models.predictddl.ghn import SHAPES, Embedder
from networks.primitives import Primitive, PrimitiveGraph
from warehouse.records import BadInput


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("STEPCAST_HOME", str(tmp_path))
    return tmp_path


def test_a_second_type_is_trained_and_goes_on(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training, "IMAGES", 4)
    monkeypatch.setattr(training, "META_BATCH", 1)
    first = embedders.train("pairs", minutes=0.005)
    assert first.iterations >= 1
    second = embedders.train("pairs", minutes=first.seconds / 60 + 0.005)
    assert second.iterations > first.iterations
    assert second.seconds > first.seconds
    assert embedders.available_embedders()["pairs"] == home / "embedders/pairs.safetensors"
    trained = embedders.embedder("pairs")
    assert not np.array_equal(trained.parameters["embed"], Embedder.untrained().parameters["embed"])
    third = embedders.train("pairs", minutes=second.seconds / 120)
    assert third.iterations == second.iterations, "its time is over"


def test_the_shipped_one_embeds_and_is_small() -> None:
    path = embedders.available_embedders()["digits"]
    assert path.stat().st_size < 2**20
    shipped = embedders.embedder("digits")
    assert set(shipped.parameters) == set(SHAPES)
    graph = PrimitiveGraph("x", 8, (Primitive("input"), Primitive("conv")), ((0, 1),), 0)
    vector = shipped.embedding(graph)
    assert vector.shape == (32,) and np.isfinite(vector).all()


def test_what_cannot_be_trained_is_refused() -> None:
    with pytest.raises(BadInput, match="unknown type of dataset 'faces'"):
        embedders.train("faces", minutes=1)
    with pytest.raises(BadInput, match="expected minutes above 0, found 0"):
        embedders.train("digits", minutes=0)
    with pytest.raises(
        BadInput, match=r"no embedder for datasets of type 'faces'.*serve --datasets"
    ):
        embedders.embedder("faces")
