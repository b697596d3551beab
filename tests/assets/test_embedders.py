"""Training an embedder through Dagster's job: a few seconds of `pairs`, and what goes wrong."""

import os
from pathlib import Path

import pytest
from dagster import DagsterRunStatus

from assets import embedders as assets
from assets.resources import OWNER_TAG
from forecasting import embedders
from pipelines import dagster_history, execution
from pipelines.service import embedder_training
from pipelines.service.checker import Checker
from profilers.steady import hostlock
from tests.pipelines.ran import statuses


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait for nobody's measurement; put back what commands set."""
    monkeypatch.setattr(hostlock, "NAME", f"\0training-{os.getpid()}")
    monkeypatch.setenv("DAGSTER_HOME", "/nowhere")


@pytest.mark.exhaustive
def test_a_new_type_is_trained_for_in_a_run_that_the_history_shows(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As the service has it done: in a process of its own, here in this one."""
    monkeypatch.setattr(embedders, "SHIPPED", home / "nothing-is-shipped")
    checker = Checker(None, 1, ["true"])
    assert not checker.is_known("pairs")
    monkeypatch.setattr("sys.argv", ["retraining", "pairs", "0.02"])
    whole = embedders.train
    monkeypatch.setattr(
        embedders, "train", lambda name, **given: whole(name, **{**given, "networks": 2})
    )
    embedder_training.main()
    assert checker.is_known("pairs")
    checker.close()
    assert embedders.embedder("pairs").parameters["embed"].shape[1] == 32
    assert "pairs: judged on 2 networks" in capsys.readouterr().err
    with dagster_history.instance(home) as instance:
        (run,) = instance.get_runs()
        (event,) = instance.fetch_materializations(assets.trained.key, limit=1).records
    assert (run.job_name, run.status) == (assets.JOB, DagsterRunStatus.SUCCESS)
    assert OWNER_TAG in run.tags
    assert event.asset_materialization is not None
    metadata = event.asset_materialization.metadata
    assert metadata["dataset"].value == "pairs"
    assert isinstance(metadata["iterations"].value, int) and metadata["iterations"].value > 0


def test_a_type_without_images_fails_in_one_line(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.argv", ["retraining", "cifar10", "1"])
    with pytest.raises(SystemExit, match="dataset cifar10 cannot be downloaded"):
        embedder_training.main()
    assert statuses(home) == [DagsterRunStatus.FAILURE]


def test_an_interrupted_run_says_that_it_goes_on(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(execution, "execute_training", interrupted)
    monkeypatch.setattr("sys.argv", ["retraining", "pairs", "1"])
    with pytest.raises(SystemExit, match="interrupted; it goes on where it was"):
        embedder_training.main()
