"""What Dagster is given loads, every asset says what it is, and rests on what it should."""

import logging
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import dagster as dg
import pytest

from assets.fleet import WATCHES
from models.systems import SYSTEMS
from pipelines.execution import resources
from pipelines.lineage import STUDIES, all_definitions, shown_files, study_definitions
from profilers.probes import PROBES
from studies.study import Study, read_study
from tests.synthetic import STUDY, write_study
from warehouse.home import CHECKOUT
from warehouse.requirements import Refusal, Requirement
from warehouse.sql import read_only
from warehouse.warehouse import Warehouse

COMMITTED = sorted((CHECKOUT / "studies").glob("*.yaml"))
GROUPS = {"profiles", "fits", "predictions", "measured", "accuracy"}
MEASURING = {"profiles", "measured"}
STUDIED = [read_study(file) for file in COMMITTED]
every_study = pytest.mark.parametrize("study", STUDIED, ids=lambda study: study.name)
every_forecast = pytest.mark.parametrize(
    "study", [study for study in STUDIED if not study.only_profiles], ids=lambda study: study.name
)


@cache
def committed() -> dg.Definitions:
    """Return the definitions of all committed studies, made by the first test that asks."""
    return all_definitions(resources(), *COMMITTED)


@cache
def listed() -> list[dg.AssetSpec]:
    """Return the specs of all their assets."""
    return list(committed().resolve_all_asset_specs())


def made(*files: Path) -> dg.Definitions:
    """Return the definitions of study files."""
    return study_definitions(resources(), *files)


def upstream(of: dg.Definitions, key: dg.AssetKey) -> set[dg.AssetKey]:
    """Return what an asset depends on."""
    return set(of.resolve_asset_graph().get(key).parent_keys)


def in_group(study: str, group: str, of: dg.Definitions | None = None) -> dict[str, dg.AssetKey]:
    """Return the assets of a study's group by their last name."""
    keys = (of or committed()).resolve_asset_graph().get_all_asset_keys()
    return {key.path[-1]: key for key in keys if key.path[:-1] == [study, group]}


def asked_by(study: Study, system: str) -> Iterator[Requirement]:
    """Yield what a system asks for, of all test scenarios of a study that it does not refuse."""
    (forecaster,) = (candidate for candidate in SYSTEMS if candidate.name == system)
    for curve in study.curves:
        for scenario in curve.scenarios("emulated") if curve.is_judged else ():
            rests = forecaster.requires(scenario)
            if not isinstance(rests, Refusal):
                yield from rests


@every_study
def test_every_asset_describes_itself(study: Study) -> None:
    for spec in (spec for spec in listed() if spec.key.path[0] == study.name):
        _, group, _ = spec.key.path
        assert group in GROUPS
        assert spec.group_name == study.name
        assert spec.description
        assert spec.description.endswith(".")
        assert spec.owners == ["team:stepcast"]
        assert spec.kinds
        assert (spec.freshness_policy is not None) == (group in MEASURING)
        assert (spec.automation_condition is not None) == (group == "accuracy"), "measuring costs"
        assert (spec.code_version is not None) == (group in ("fits", "predictions"))
        # What disturbs measuring, or opens the database, waits for what does so already.
        pool = committed().resolve_assets_def(spec.key).op.pool
        assert pool == ("measuring_host" if group in MEASURING else "warehouse")


def test_every_asset_names_a_table_that_is_there(home: Path) -> None:
    Warehouse(home).load()
    known = read_only(
        home, "SELECT table_schema || '.' || table_name AS name FROM information_schema.tables"
    )
    named = {spec.key: spec.metadata.get("dagster/table_name") for spec in listed()}
    assert {name for name in named.values() if name} <= set(known["name"])
    unnamed = {key.path[-1] for key, name in named.items() if not name}
    assert unnamed == {"report"}


@every_forecast
def test_a_fit_depends_on_exactly_what_its_system_rests_on(study: Study) -> None:
    profiled, fitted = in_group(study.name, "profiles"), in_group(study.name, "fits")
    assert fitted
    for system, key in fitted.items():
        asks = list(asked_by(study, system))
        # What others measured is profiled by no probe of ours.
        probed = [ask for ask in asks if ask.scope != "public"]
        required = {ask.probe for ask in probed if not ask.optional}
        optional = {ask.probe for ask in probed if ask.optional}
        assert asks
        learned = {
            dg.AssetKey([other, "profiles", probe])
            for other in study.learns_from
            for probe in required | optional
        }
        own = {profiled[probe] for probe in required | optional if probe in profiled}
        assert required <= profiled.keys() or learned
        assert upstream(committed(), key) == own | learned
    # Nothing is profiled that no fit rests on.
    assert {*profiled.values()} <= set().union(
        *(upstream(committed(), key) for key in fitted.values())
    )


@every_forecast
def test_forecasts_come_between_what_is_profiled_and_what_is_measured(study: Study) -> None:
    fits, predictions, measured, accuracy = (
        in_group(study.name, group) for group in ("fits", "predictions", "measured", "accuracy")
    )
    assert fits.keys() == predictions.keys()
    for system, key in predictions.items():
        assert upstream(committed(), key) == {fits[system]}
    assert any(PROBES[probe].metric for probe in measured)
    for key in measured.values():
        assert upstream(committed(), key) == {*predictions.values()}
    assert upstream(committed(), accuracy["table"]) == {*measured.values()}
    assert upstream(committed(), accuracy["report"]) == {accuracy["table"]}
    for key in in_group(study.name, "profiles").values():
        assert upstream(committed(), key) == set()


@every_study
def test_a_study_has_one_job_that_runs_all_of_it_in_one_process(study: Study) -> None:
    job = committed().resolve_job_def(study.name)
    assert job.description == study.description
    assert job.executor_def.name == "in_process"
    keys = {spec.key for spec in listed() if spec.key.path[0] == study.name}
    assert job.asset_layer.executable_asset_keys == keys
    checks = committed().resolve_asset_graph().asset_check_keys
    assert job.asset_layer.asset_graph.asset_check_keys == {
        check for check in checks if check.asset_key in keys
    }


def test_checks_say_what_must_hold_and_block_where_it_must() -> None:
    graph = committed().resolve_asset_graph()
    blocking: dict[str, bool] = {}
    for key in graph.asset_check_keys:
        spec = graph.get_check_spec(key)
        assert spec.description
        assert "\n" not in spec.description
        assert blocking.setdefault(key.name, spec.blocking) == spec.blocking
    assert blocking == {
        "links_are_as_shaped": True,
        "traces_are_whole": True,
        "links_can_carry_it": True,
        "everything_is_judged": True,
        "transfers_were_captured": False,
        "not_above_linear": False,
        "host_was_not_busy": False,
    }
    assert {check.op.pool for check in committed().asset_checks or ()} == {"warehouse"}


def test_schedules_are_of_jobs_that_are_there_and_off_until_somebody_wants_them() -> None:
    schedules = {schedule.name: schedule for schedule in committed().schedules or ()}
    jobs = {name: schedule.job_name for name, schedule in schedules.items()}  # type: ignore[union-attr]
    assert jobs == {
        "half_hourly_variance": "variance",
        "weekly_demo": "demo",
        "daily_prices": "prices",
        "quarter_hourly_reap": "reap",
    }
    for name, job in jobs.items():
        assert committed().resolve_job_def(job).name == job
        schedule = committed().resolve_schedule_def(name)
        assert schedule.default_status.value == "STOPPED"
        assert schedule.description


@pytest.fixture
def warnings() -> Iterator[list[str]]:
    """Return what is warned of, also where Dagster has told its logger to keep to itself."""
    messages: list[str] = []

    class Kept(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            messages.append(record.getMessage())

    logger, kept = logging.getLogger("dagster"), Kept(logging.WARNING)
    logger.addHandler(kept)
    yield messages
    logger.removeHandler(kept)


def jobs(of: dg.Definitions) -> set[str]:
    """Return the names of the jobs of definitions."""
    return {job.name for job in of.jobs or ()}


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ("dnn: small_cnn, image", "image"),
        ("probes:", "probs:"),
        ("worker: emu.native.c25", "worker: emu.x"),
        ("name: paper", "name: [paper"),
        ("description:", "systems: [no_such]\ndescription:"),
    ],
)
def test_a_study_that_is_wrong_takes_no_other_with_it(
    wrong: str, said: str, tmp_path: Path, warnings: list[str]
) -> None:
    assert wrong in STUDY
    bad = tmp_path / "bad.yaml"
    bad.write_text(STUDY.replace(wrong, said).replace("name: paper", "name: bad"))
    good = write_study(tmp_path)
    definitions = made(bad, good)
    assert jobs(definitions) == {"paper"}
    dg.Definitions.validate_loadable(definitions)
    (warning,) = warnings
    assert warning.startswith("study left out of the lineage: ")
    assert str(bad) in warning
    assert "\n" not in warning


@pytest.mark.parametrize("name", [WATCHES, "reap", "prices"])
def test_a_study_with_the_name_of_another_job_is_warned_of(
    name: str, tmp_path: Path, warnings: list[str]
) -> None:
    study = write_study(tmp_path, STUDY.replace("name: paper", f"name: {name}"))
    definitions = all_definitions(resources(), study)
    assert jobs(definitions) == jobs(all_definitions(resources()))
    assert warnings == [f"study left out of the lineage: {study} has the name of another, {name}"]


def test_names_that_dagster_does_not_permit_are_changed_for_it(
    tmp_path: Path, warnings: list[str]
) -> None:
    study = write_study(tmp_path, STUDY.replace("name: paper", "name: my-study.2"))
    definitions = made(study)
    assert jobs(definitions) == {"my_study_2"}
    assert {key.path[0] for key in definitions.resolve_asset_graph().get_all_asset_keys()} == {
        "my-study.2"
    }
    assert {spec.group_name for spec in definitions.resolve_all_asset_specs()} == {"my_study_2"}
    other = tmp_path / "other.yaml"
    other.write_text(STUDY.replace("name: paper", "name: my_study_2"))
    assert jobs(made(study, other)) == {"my_study_2"}
    (warning,) = warnings
    assert "has the name of another, my_study_2" in warning


def test_a_home_shows_the_studies_that_have_run_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = write_study(tmp_path)
    monkeypatch.setenv(STUDIES, str(study))
    home = tmp_path / "home"
    monkeypatch.setattr("pipelines.lineage.studies_of", lambda _: set())
    assert [file.stem for file in shown_files(home)] == ["demo", study.stem]
    ran = {"reference_ddp", "variance", "fleet.emu.avx2.s15"}
    monkeypatch.setattr("pipelines.lineage.studies_of", lambda _: ran)
    assert [file.stem for file in shown_files(home)] == ["reference_ddp", "variance", study.stem]
    monkeypatch.setattr("pipelines.lineage.studies_of", lambda _: {"fleet.emu.avx2.s15"})
    assert [file.stem for file in shown_files(home)] == ["demo", study.stem]
