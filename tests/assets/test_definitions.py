"""All assets of a study in one run of Dagster, with probes that run nothing."""

from pathlib import Path

import pytest
from dagster import AssetsDefinition, ExecuteInProcessResult, materialize

from assets.definitions import definitions_of
from assets.resources import RoundsResource, WarehouseResource
from studies.messages import Progress
from tests.synthetic import CAPTURING, PaperProbes, write_study
from warehouse.warehouse import read_only


def run(file: Path, home: Path, *groups: str) -> ExecuteInProcessResult:
    """Materialize the assets of some groups of a study; a failure is in the result."""
    found = definitions_of(file)
    assets = [
        one
        for one in found.assets or ()
        if isinstance(one, AssetsDefinition) and one.key.path[1] in groups
    ]
    keys = {asset.key for asset in assets}
    checks = [
        one for one in found.asset_checks or () if {key.asset_key for key in one.check_keys} <= keys
    ]
    warehouse = WarehouseResource(home=str(home))
    return materialize(
        [*assets, *checks],
        resources={
            "rounds": RoundsResource(backend="loopback", warehouse=warehouse),
            "warehouse": warehouse,
            "progress": Progress(),
        },
        raise_on_error=False,
    )


@pytest.mark.exhaustive
@pytest.mark.usefixtures("probes")
def test_whatever_is_measured_was_forecast_before(home: Path, tmp_path: Path) -> None:
    file = write_study(tmp_path, CAPTURING)

    assert run(file, home, "profiles", "analyses").success
    early = run(file, home, "measured")
    failed = [event.step_failure_data.error for event in early.get_step_failure_events()]
    assert "the ledger has no prediction of it" in str(failed)

    result = run(file, home, "fits", "predictions", "measured")
    assert result.success
    rows = {
        "/".join(event.materialization.asset_key.path[1:]): event.materialization.metadata
        for event in result.get_asset_materialization_events()
    }
    counts = {name: one["dagster/row_count"].value for name, one in rows.items()}
    assert counts["predictions/async_sgd"] == counts["predictions/linear"] == 4
    assert counts["fits/async_sgd"] == 2, "curves"
    judged = read_only(home, "SELECT DISTINCT system, subject_id FROM report.accuracy")
    assert judged.filter(system="async_sgd").height == 4


@pytest.mark.exhaustive
def test_checks_say_what_they_found(home: Path, tmp_path: Path, probes: PaperProbes) -> None:
    probes.idle = 0.01
    result = run(write_study(tmp_path), home, "profiles", "fits", "predictions", "measured")
    assert result.success, "a busy host is a warning"
    found = {
        evaluation.check_name: evaluation.passed
        for evaluation in result.get_asset_check_evaluations()
    }
    assert found == {
        "links_are_as_shaped": True,
        "traces_are_whole": True,
        "transfers_were_captured": True,
        "links_can_carry_it": True,
        "not_above_linear": True,
        "host_was_not_busy": False,
    }
