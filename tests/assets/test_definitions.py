"""All assets of a study in one run of Dagster, with probes that run nothing."""

from pathlib import Path

import dagster as dg
import pytest

from assets.definitions import definitions_of
from assets.resources import RoundsResource, WarehouseResource
from assets.study_lineage import read_lineage
from studies.messages import Progress
from tests.synthetic import CAPTURING, ONLY_PROFILES, PYTORCH, write_study
from warehouse.sql import read_only


def run(file: Path, home: Path, *groups: str) -> dg.ExecuteInProcessResult:
    """Materialize the assets of some groups of a study; a failure is in the result."""
    definitions = definitions_of(file)
    assets = [
        asset
        for asset in definitions.assets or ()
        if isinstance(asset, dg.AssetsDefinition) and asset.key.path[1] in groups
    ]
    keys = {asset.key for asset in assets}
    checks = [
        check
        for check in definitions.asset_checks or ()
        if {key.asset_key for key in check.check_keys} <= keys
    ]
    warehouse = WarehouseResource(home=str(home))
    return dg.materialize(
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

    assert run(file, home, "profiles").success
    early = run(file, home, "measured")
    failed = [event.step_failure_data.error for event in early.get_step_failure_events()]
    assert "the ledger has no prediction of it" in str(failed)

    result = run(file, home, "fits", "predictions", "measured")
    assert result.success
    metadata = {
        "/".join(event.materialization.asset_key.path[1:]): event.materialization.metadata
        for event in result.get_asset_materialization_events()
    }
    counts = {name: entries["dagster/row_count"].value for name, entries in metadata.items()}
    assert counts["predictions/async_sgd"] == counts["predictions/linear"] == 4
    assert counts["fits/async_sgd"] == 2, "curves"
    judged = read_only(home, "SELECT DISTINCT system, subject_id FROM report.accuracy")
    assert judged.filter(system="async_sgd").height == 4


def keys(definitions: dg.Definitions) -> set[str]:
    return {"/".join(key.path[1:]) for key in dependencies(definitions)}


def dependencies(definitions: dg.Definitions) -> dict[dg.AssetKey, set[dg.AssetKey]]:
    """Return the keys of a study's assets, and of what each depends on."""
    return {
        key: set(asset.asset_deps[key])
        for asset in definitions.assets or ()
        if isinstance(asset, dg.AssetsDefinition)
        for key in asset.keys
    }


def test_a_probe_is_shown_for_what_fits_see_and_for_what_judges(tmp_path: Path) -> None:
    of = read_lineage(write_study(tmp_path, PYTORCH))
    assert of.profiling == (
        "links",
        "allreduce",
        "torch_operations",
        "torch_compute",
        "torch_throughput",
    )
    assert of.measuring == ("torch_operations", "torch_throughput")
    assert [system.name for system in of.systems] == [
        "srift",
        "ideal_scaling",
        "ceer_pytorch",
        "ceer_pytorch_paper",
    ]


def test_a_study_that_only_profiles_has_neither_fits_nor_accuracy(tmp_path: Path) -> None:
    definitions = definitions_of(write_study(tmp_path, ONLY_PROFILES))
    assert keys(definitions) == {"profiles/links", "profiles/contention", "profiles/tf_trace"}
    checks = {key.name for check in definitions.asset_checks or () for key in check.check_keys}
    assert checks == {"links_are_as_shaped", "traces_are_whole", "transfers_were_captured"}
    assert [job.name for job in definitions.jobs or ()] == ["profiled"]
