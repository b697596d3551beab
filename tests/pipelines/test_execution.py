"""The whole job, in process, on probes that run nothing."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import polars as pl
import pytest
from dagster import AssetKey, DagsterRunStatus

from assets.progress import Progress
from assets.systems import SYSTEMS
from assets.turns import OWNER_TAG
from pipelines import history
from pipelines.definitions import defs
from pipelines.execution import CheckFailed, Verdict, execute
from tests.synthetic import FORECASTERS, OPERATIONS, PaperProbes, write_study
from warehouse.records import ProbeFailed
from warehouse.warehouse import Warehouse, read_only

MEASURED = [
    "measure small_cnn 16px b4, unshaped, W=1",
    "measure small_cnn 16px b4, unshaped, W=2",
    "measure alexnet 64px b4, unshaped, W=1",
    "measure alexnet 64px b4, unshaped, W=3",
]
ASKED = ["links", "profile small_cnn", "profile alexnet", *MEASURED]


def run(home: Path, study: Path) -> list[Verdict]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("STEPCAST_HOME", str(home))
        with history.instance(home) as instance:
            return list(execute(instance, study, "loopback", Progress()))


def statuses(home: Path) -> list[DagsterRunStatus]:
    with history.instance(home) as instance:
        return [one.status for one in instance.get_runs()]


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, PaperProbes]]:
    """Return a home in which the job has run once, and the probes it ran."""
    home = tmp_path_factory.mktemp("finished")
    with pytest.MonkeyPatch.context() as patch:
        probes = PaperProbes()
        probes.install(patch)
        assert run(home, write_study(home)) == []
    yield home, probes


def test_the_job_predicts_then_measures_then_judges(finished: tuple[Path, PaperProbes]) -> None:
    home, probes = finished
    assert probes.asked == ASKED
    accuracy = Warehouse(home).accuracy()
    judged = accuracy.select("system", "label").sort("system", "label").rows()
    labels = sorted(name.removeprefix("measure ") for name in MEASURED)
    systems = sorted(system.name for system in FORECASTERS)
    assert judged == [(system, label) for system in systems for label in labels]
    order = read_only(
        home,
        "SELECT (SELECT max(made_at) FROM pred.ledger) < min(started_at) AS first "
        "FROM raw.run WHERE probe = 'tf_throughput'",
    )
    assert order["first"].to_list() == [True]
    assert (home / "report.html").exists()
    assert statuses(home) == [DagsterRunStatus.SUCCESS]


def test_one_worker_is_predicted_as_it_was_profiled(finished: tuple[Path, PaperProbes]) -> None:
    """The exact ones are; Cynthia knows no overlap, and the line rate no worker."""
    exact = pl.col("system").is_in(["async_sgd", "linear", "lin"])
    single = Warehouse(finished[0]).accuracy().filter(pl.col("split") == "seen", exact)
    assert single.height == 6
    assert single["predicted"].to_list() == pytest.approx([10.0] * 6, rel=0.05)


def test_assets_show_rows_columns_and_plots(finished: tuple[Path, PaperProbes]) -> None:
    shown = {}
    with history.instance(finished[0]) as instance:
        for key in instance.all_asset_keys():
            event = instance.get_latest_materialization_event(key)
            assert event is not None
            assert event.asset_materialization is not None
            shown[key.to_user_string()] = event.asset_materialization.metadata
    assert len(shown) == 12 + 2 * len(SYSTEMS)
    common = {"dagster/row_count", "dagster/column_schema", "study", "round", "backend"}
    assert all(common <= set(metadata) for metadata in shown.values())
    assert shown["measured/throughput"]["dagster/row_count"].value == 16
    for plotted in ("cluster/links", "profiles/tf_trace", "measured/throughput", "accuracy/table"):
        assert "data:image/png;base64," in str(shown[plotted]["plot"].value)


def test_the_next_call_is_a_new_round(
    finished: tuple[Path, PaperProbes], probes: PaperProbes, tmp_path: Path
) -> None:
    home = shutil.copytree(finished[0], tmp_path / "again")
    run(home, home / "paper.yaml")
    assert probes.asked == ASKED
    rounds = Warehouse(home).query("runs", study="paper")["repeat"].value_counts()
    assert sorted(rounds.rows()) == [(1, 7), (2, 7)]
    floors = Warehouse(home).accuracy()["noise_floor_percent"].to_list()
    assert floors == pytest.approx([0.0] * 8 * len(FORECASTERS))


def test_a_failed_probe_fails_the_job_and_is_resumed(
    home: Path, study_file: Path, probes: PaperProbes
) -> None:
    probes.fail_at = MEASURED[-1]
    with pytest.raises(ProbeFailed, match=r"W=3 failed: .*\n.*no paper left"):
        run(home, study_file)
    assert statuses(home) == [DagsterRunStatus.FAILURE]
    made_at = Warehouse(home).predictions("paper", 1)["made_at"].to_list()
    probes.fail_at, probes.asked = "", []
    run(home, study_file)
    assert probes.asked == MEASURED[-1:]
    runs = Warehouse(home).query("runs", study="paper")
    assert (runs["status"] == "failed").sum() == 1
    assert set(runs["repeat"]) == {1}
    assert Warehouse(home).predictions("paper", 1)["made_at"].to_list() == made_at


def test_an_interrupted_job_is_resumed(
    home: Path, study_file: Path, probes: PaperProbes, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(scenario: object) -> NoReturn:
        raise KeyboardInterrupt

    monkeypatch.setattr(probes, "throughput", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run(home, study_file)
    assert probes.asked == ASKED[:4]
    monkeypatch.undo()
    PaperProbes.install(probes, monkeypatch)
    probes.asked = []
    run(home, study_file)
    assert probes.asked == MEASURED


def test_a_blocking_check_stops_what_is_downstream(
    home: Path, study_file: Path, probes: PaperProbes
) -> None:
    probes.operations = [one for one in OPERATIONS if one[2] != "uplink"]
    with pytest.raises(CheckFailed, match=r"traces are whole: .*no uplink transfer"):
        run(home, study_file)
    assert probes.asked == ASKED[:3]
    with history.instance(home) as instance:
        assert instance.get_latest_materialization_event(AssetKey(["fits", "linear"])) is None


def test_a_busy_host_is_warned_of_and_a_dead_run_is_ended(
    home: Path, study_file: Path, probes: PaperProbes
) -> None:
    dead = leave_dead_run(home)
    probes.idle = 0.1
    (warning,) = run(home, study_file)
    assert "host was not busy: measure small_cnn 16px b4, unshaped, W=1, window 1: 10 % idle" in (
        str(warning)
    )
    with history.instance(home) as instance:
        ended = instance.get_run_by_id(dead)
        assert ended is not None
        assert ended.status == DagsterRunStatus.FAILURE
        assert not instance.event_log_storage.get_concurrency_run_ids()


def leave_dead_run(home: Path) -> str:
    """Make a run that holds the measuring pool, of a process that ended long ago."""
    with history.instance(home) as instance:
        dead = instance.create_run_for_job(
            job_def=defs.resolve_job_def("demo"),
            tags={OWNER_TAG: "stepcast-1-1-0-run"},
            status=DagsterRunStatus.STARTED,
        )
        storage = instance.event_log_storage
        storage.initialize_concurrency_limit_to_default("measuring_host")
        assert storage.claim_concurrency_slot("measuring_host", dead.run_id, "step").is_claimed
        return dead.run_id
