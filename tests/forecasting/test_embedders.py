"""Embedders by type of dataset: the one that is shipped, and others trained in a home."""

from functools import partial
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
    monkeypatch.setattr(training, "judge", partial(training.judge, images=8))
    lines: list[str] = []
    first = embedders.train("pairs", minutes=0.005, networks=2, say=lines.append)
    assert first.iterations >= 1
    assert first.networks == 2 and first.low <= first.random - first.predicted <= first.high
    assert lines[-1] == "pairs: judged on 2 networks that training did not draw"
    second = embedders.train("pairs", minutes=first.seconds / 60 + 0.005, networks=2)
    assert second.iterations > first.iterations
    assert second.seconds > first.seconds
    assert (
        embedders.available_embedders()["pairs"]
        == second.path
        == home / "embedders/pairs.safetensors"
    )
    trained = embedders.embedder("pairs")
    assert not np.array_equal(trained.parameters["embed"], Embedder.untrained().parameters["embed"])
    third = embedders.train("pairs", minutes=second.seconds / 120, networks=2)
    assert third.iterations == second.iterations, "its time is over"


@pytest.mark.exhaustive
def test_equal_iterations_make_equal_embedders(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever was trained before, by the clock or with another seed."""
    monkeypatch.setattr(training, "IMAGES", 4)
    monkeypatch.setattr(training, "META_BATCH", 1)
    monkeypatch.setattr(training, "judge", partial(training.judge, images=8))
    made = []
    for seed, folder in ((0, home), (1, home), (0, home / "another")):
        monkeypatch.setenv("STEPCAST_HOME", str(folder))
        embedders.train("digits", minutes=0.005, networks=2)
        trained = embedders.train("digits", minutes=5, iterations=3, seed=seed, networks=2)
        assert trained.iterations == 3
        made.append(trained.path.read_bytes())
    assert made[0] == made[2] != made[1]


def test_trainings_by_the_clock_go_on_each_with_its_own_seed(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(training, "IMAGES", 4)
    monkeypatch.setattr(training, "META_BATCH", 1)
    monkeypatch.setattr(training, "judge", partial(training.judge, images=8))
    for seed in (0, 1):
        embedders.train("digits", minutes=0.005, seed=seed, networks=2)
    states = [path.read_bytes() for path in (home / embedders.FOLDER).glob("*.training")]
    assert len(set(states)) == 2


def test_iterations_that_time_does_not_suffice_for_are_refused_and_go_on(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(training, "IMAGES", 4)
    monkeypatch.setattr(training, "META_BATCH", 1)
    message = "1 of 2 iterations were done in 1e-06 minutes; the same command with more --minutes"
    with pytest.raises(BadInput, match=message):
        embedders.train("pairs", minutes=1e-6, iterations=2, networks=2)
    assert not (home / "embedders/pairs.safetensors").exists()
    assert embedders.train("pairs", minutes=5, iterations=2, networks=2).iterations == 2


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
    with pytest.raises(BadInput, match="expected iterations above 0, found 0"):
        embedders.train("digits", minutes=1, iterations=0)
    with pytest.raises(
        BadInput, match=r"no embedder for datasets of type 'faces'.*serve --datasets"
    ):
        embedders.embedder("faces")
