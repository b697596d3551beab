"""The whole job, in process, on probes that run nothing."""

from pathlib import Path
from threading import Event

import dagster as dg
import pytest

from pipelines import dagster_history
from pipelines.execution import execute
from studies.messages import Progress
from tests.pipelines.ran import ASKED, MEASURED, Ran, statuses
from tests.synthetic import FORECASTERS, OPERATIONS, PaperProbes
from warehouse.records import StepcastError
from warehouse.sql import read_only
from warehouse.warehouse import Warehouse


def run(home: Path, study: Path) -> None:
    with dagster_history.instance(home) as instance:
        execute(instance, study, "loopback", Progress())


def warnings(ran: Ran) -> list[str]:
    """Return what checks warned of."""
    lines = [line for line in ran.answer.err.splitlines() if line.startswith("warning: ")]
    of_loopback = "warning: loopback shapes no links", "warning: 3 workers share"
    return [line for line in lines if not line.startswith(of_loopback)]


@pytest.fixture(autouse=True)
def dagster_home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DAGSTER_HOME", "/nowhere")  # put back what opening the history sets


def test_the_job_predicts_then_measures_then_judges(first_run: Ran) -> None:
    home = first_run.home
    assert list(first_run.asked) == ASKED
    assert warnings(first_run) == []
    accuracy = Warehouse(home).query("judged")
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
    assert statuses(home) == [dg.DagsterRunStatus.SUCCESS]


def test_assets_show_rows_columns_and_plots(first_run: Ran) -> None:
    shown = {}
    with dagster_history.instance(first_run.home) as instance:
        for key in instance.all_asset_keys():
            event = instance.get_latest_materialization_event(key)
            assert event is not None
            assert event.asset_materialization is not None
            shown[key.to_user_string()] = event.asset_materialization.metadata
    assert shown.keys() == {
        *(f"paper/{name}" for name in ("profiles/links", "profiles/tf_trace")),
        *(f"paper/fits/{system.name}" for system in FORECASTERS),
        *(f"paper/predictions/{system.name}" for system in FORECASTERS),
        *(f"paper/{name}" for name in ("measured/tf_throughput", "accuracy/table")),
        "paper/accuracy/report",
    }
    common = {"dagster/row_count", "dagster/column_schema", "study", "round", "backend"}
    assert all(common <= set(metadata) for metadata in shown.values())
    assert shown["paper/measured/tf_throughput"]["dagster/row_count"].value == 4 * 6
    drawn = shown["paper/accuracy/table"]
    assert drawn["n: linear"].value == 2
    assert drawn["MAPE in percent: linear"].value == pytest.approx(100 * (1.4 / 1.01 - 1), rel=0.5)


def test_the_next_call_is_a_new_round(second_run: tuple[Ran, str]) -> None:
    ran, _ = second_run
    assert list(ran.asked) == ASKED
    rounds = Warehouse(ran.home).query("runs", study="paper")["repeat"].value_counts()
    assert sorted(rounds.rows()) == [(1, 7), (2, 7)]
    floors = Warehouse(ran.home).query("judged")["noise_floor_percent"].to_list()
    assert floors == pytest.approx([0.0] * 8 * len(FORECASTERS))


def test_a_blocking_check_stops_what_is_downstream(
    home: Path, study_file: Path, probes: PaperProbes
) -> None:
    probes.operations = [operation for operation in OPERATIONS if operation[2] != "uplink"]
    with pytest.raises(StepcastError, match=r"traces are whole: .*no uplink transfer"):
        run(home, study_file)
    assert probes.asked == ASKED[:3]
    with dagster_history.instance(home) as instance:
        assert (
            instance.get_latest_materialization_event(dg.AssetKey(["paper", "fits", "linear"]))
            is None
        )


def test_an_interrupt_that_python_ignores_is_not_lost(
    home: Path, study_file: Path, probes: PaperProbes
) -> None:
    class Ignored:
        def __del__(self) -> None:
            raise dg.DagsterExecutionInterruptedError

    class Interrupted(Progress):
        def finished(self, task: str) -> None:
            Ignored()
            Event().wait(30)

    with dagster_history.instance(home) as instance, pytest.raises(KeyboardInterrupt):
        execute(instance, study_file, "loopback", Interrupted())
    assert len(probes.asked) == 1


def test_a_busy_host_is_warned_of_and_a_dead_run_is_ended(second_run: tuple[Ran, str]) -> None:
    ran, dead = second_run
    (warning,) = warnings(ran)
    assert "host was not busy: measure small_cnn 16px b4, unshaped, W=1, window 1: 10 % idle" in (
        warning
    )
    assert statuses(ran.home) == [
        dg.DagsterRunStatus.SUCCESS,
        dg.DagsterRunStatus.FAILURE,
        dg.DagsterRunStatus.SUCCESS,
    ]
    with dagster_history.instance(ran.home) as instance:
        ended = instance.get_run_by_id(dead)
        assert ended is not None
        assert ended.status == dg.DagsterRunStatus.FAILURE
        assert not instance.event_log_storage.get_concurrency_run_ids()
