"""Training an embedder as the service has it done: a few seconds of `pairs`, and what fails."""

import os
from pathlib import Path

import pytest

from forecasting import embedders
from pipelines.service import embedder_training
from profilers.steady import hostlock


@pytest.fixture(autouse=True)
def alone(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait for nobody's measurement, and take signals as ever."""
    monkeypatch.setattr("signal.signal", lambda *_: None)
    monkeypatch.setattr(hostlock, "NAME", f"\0training-{os.getpid()}")


@pytest.mark.exhaustive
def test_a_new_type_is_trained_for(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the service has it done: in a process of its own, here in this one."""
    monkeypatch.setattr(embedders, "SHIPPED", home / "nothing-is-shipped")
    assert "pairs" not in embedders.available_embedders()
    monkeypatch.setattr("sys.argv", ["retraining", "pairs", "0.02"])
    embedder_training.main()
    assert "pairs" in embedders.available_embedders()
    assert embedders.embedder("pairs").parameters["embed"].shape[1] == 32


def test_a_type_without_images_fails_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["retraining", "cifar10", "1"])
    with pytest.raises(SystemExit, match="unknown type of dataset 'cifar10'"):
        embedder_training.main()


def test_an_interrupted_training_says_that_it_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(embedders, "train", interrupted)
    monkeypatch.setattr("sys.argv", ["retraining", "pairs", "1"])
    with pytest.raises(SystemExit, match="interrupted; it goes on where it was"):
        embedder_training.main()
