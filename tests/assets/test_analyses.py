"""Assets of captured packets: there where a study captures them, and nowhere else."""

from collections.abc import Callable
from pathlib import Path

from dagster import materialize

from assets.analyses import analyses
from assets.resources import RoundsResource, WarehouseResource
from assets.study_lineage import read_lineage
from studies.rounds import Round
from tests.synthetic import CAPTURING, STUDY, write_study
from warehouse.warehouse import Warehouse


def test_assets_count_what_was_captured(
    landed_round: Callable[[str], Round], home: Path, tmp_path: Path
) -> None:
    """All tensors of a role have one size, so that there is no line; streams go both ways."""
    landed_round(CAPTURING)
    Warehouse(home).load()
    warehouse = WarehouseResource(home=str(home))
    rounds = RoundsResource(backend="loopback", warehouse=warehouse)
    result = materialize(
        analyses(read_lineage(tmp_path / "paper.yaml")),
        resources={"rounds": rounds, "warehouse": warehouse},
    )
    metadata = {
        event.asset_key.path[-1]: event.metadata
        for event in (event.materialization for event in result.get_asset_materialization_events())
    }
    assert {name: entries["dagster/row_count"].value for name, entries in metadata.items()} == {
        "overhead": 0,
        "http2": 4,
        "end_times": 2,
        "transfer_order": 2,
    }
    assert "median error of alexnet" in metadata["end_times"]


def test_a_study_that_captures_nothing_has_none(tmp_path: Path) -> None:
    assert analyses(read_lineage(write_study(tmp_path, STUDY))) == []
