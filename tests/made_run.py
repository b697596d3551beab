"""A run that tests land: all of it that a test does not say is the same everywhere."""

from datetime import UTC, datetime

import polars as pl

from warehouse.records import Run

BEGAN = datetime(2030, 1, 1, tzinfo=UTC)


def made_run(run_id: str, probe: str, began: datetime = BEGAN, **changes: object) -> Run:
    """Return a profile run of a study that was made up."""
    fields: dict[str, object] = {
        "run_id": run_id,
        "probe": probe,
        "purpose": "profile",
        "study": "made_up",
        "repeat": 1,
        "scenario_id": None,
        "backend": "emulated",
        "status": "ok",
        "started_at": began,
        "ended_at": began,
        "host_id": "host",
        "host": {"cpu": "x"},
        "software": {"torch": "2"},
        "config": {},
    }
    return Run.model_validate(fields | changes)


def judgement(**changes: object) -> pl.DataFrame:
    """Return what a watch found of steps, which take half as long again: a confirmed alarm."""
    row: dict[str, object] = {
        "node_type": "emu.avx2.1c",
        "metric": "watch_step_time_s",
        "unit": "s",
        "value": 0.3,
        "expected": 0.2,
        "change_percent": 50.0,
        "robust_z": 9.0,
        "earlier_n": 6,
        "outcome": "slower",
        "alarm": True,
        "confirmed": True,
        "watched": "probe",
        "confirmed_by": None,
    }
    schema = {"confirmed": pl.Boolean, "confirmed_by": pl.String}
    return pl.DataFrame([row | changes], schema_overrides=schema)
