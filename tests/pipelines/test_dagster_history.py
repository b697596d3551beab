"""Dagster's history is in the home, whatever the working directory."""

from pathlib import Path

import dagster as dg
import pytest
import yaml

from pipelines import dagster_history
from warehouse.home import CHECKOUT


@dg.job
def nothing() -> None:
    """Do nothing."""


def test_settings_are_those_of_the_checkout_with_absolute_paths(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DAGSTER_HOME", "/nowhere")
    dagster_history.prepare(home)
    written = yaml.safe_load((home / "dagster.yaml").read_text())
    original = yaml.safe_load((CHECKOUT / "dagster.yaml").read_text())
    assert written["storage"] == {"sqlite": {"base_dir": f"{home}/dagster"}}
    assert ".stepcast" not in str(written)
    for key in ("telemetry", "concurrency", "run_monitoring", "retention"):
        assert written[key] == original[key]


def test_what_runs_here_is_seen_by_the_web_interface(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DAGSTER_HOME", "/nowhere")
    with dagster_history.instance(home) as instance:
        run_id = nothing.execute_in_process(instance=instance).run_id
    monkeypatch.chdir(tmp_path)
    with dg.DagsterInstance.get() as instance:
        assert [run.run_id for run in instance.get_runs()] == [run_id]
