"""Assets of captured packets, of a round whose packets were captured and of one without."""

from collections.abc import Callable
from pathlib import Path

import pytest
from dagster import materialize

from assets.captures import end_times, http2, overheads, transfer_order
from assets.resources import StudyResource, WarehouseResource
from studies.rounds import Round
from tests.synthetic import CAPTURING, STUDY
from warehouse.warehouse import Warehouse

ASSETS = [overheads, http2, end_times, transfer_order]


@pytest.mark.parametrize(("text", "counts"), [(CAPTURING, [0, 4, 2, 2]), (STUDY, [0, 0, 0, 0])])
def test_assets_count_what_was_captured(
    landed_round: Callable[[str], Round], home: Path, tmp_path: Path, text: str, counts: list[int]
) -> None:
    """All tensors of a role have one size, so that there is no line; streams go both ways."""
    landed_round(text)
    Warehouse(home).load()
    warehouse = WarehouseResource(home=str(home))
    study = StudyResource(
        path=str(tmp_path / "paper.yaml"), backend="loopback", warehouse=warehouse
    )
    result = materialize(ASSETS, resources={"study": study, "warehouse": warehouse})
    found = [
        result.asset_materializations_for_node(asset.node_def.name)[0].metadata for asset in ASSETS
    ]
    assert [one["dagster/row_count"].value for one in found] == counts
    assert ("median error of alexnet" in found[2]) == (text == CAPTURING)
