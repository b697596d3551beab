"""What lineage has of recommendations, on a small history of reference runs."""

from pathlib import Path
from shutil import copytree

import pytest
from dagster import TableSchemaMetadataValue, materialize

from assets import resources
from assets.metadata import comments
from assets.recommendations import ITERATIONS, recommendations
from assets.resources import RoundsResource, WarehouseResource
from assets.studied import studied
from forecasting.chosen import asking_of
from forecasting.ready import Ready
from studies.progress import Progress
from tests.small_history import PYTORCH
from tests.synthetic import write_study
from warehouse.home import CHECKOUT
from warehouse.warehouse import Warehouse

STUDY = CHECKOUT / "studies" / f"{PYTORCH}.yaml"


def test_a_study_recommends_the_cheapest_nodes_for_its_networks(
    small_history: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copytree(small_history, home, dirs_exist_ok=True)
    of, history = studied(STUDY), Warehouse(home)
    ready = Ready(of.study, asking_of(of.study), "emulated", "the reference was measured there")
    (host,) = (
        history.query("runs", study=PYTORCH)
        .join(history.visible("run"), on="run_id")["host_id"]
        .unique()
    )
    monkeypatch.setattr(resources, "ready", lambda path, backend: ready)
    monkeypatch.setattr(resources, "host_id", lambda backend: host)
    (asset,) = recommendations(of)
    warehouse = WarehouseResource(home=str(home))
    result = materialize(
        [asset],
        resources={
            "rounds": RoundsResource(backend="emulated", warehouse=warehouse),
            "warehouse": warehouse,
            "progress": Progress(),
        },
    )
    (event,) = result.get_asset_materialization_events()
    shown = event.materialization.metadata
    assert shown["dagster/row_count"].value == 1
    schema = shown["dagster/column_schema"]
    assert isinstance(schema, TableSchemaMetadataValue)
    said = {one.name: one.description for one in schema.schema.columns}
    assert (
        said["recommendation_id"]
        == "Hash of everything but code_version, made_at, sequence and sha256"
    )
    assert "value" not in comments(warehouse), "tables say different things of it"
    assert comments(warehouse, "pred.ledger")["value"].startswith("The forecast, in the unit")
    (found,) = history.query("recommendations").to_dicts()
    assert found["system"] == "srift"
    assert f'"iterations":{ITERATIONS}' in found["job"].replace(" ", "")
    assert "emu.avx512" in found["choice"]


def test_only_systems_that_recommend_have_an_asset(tmp_path: Path) -> None:
    assert recommendations(studied(write_study(tmp_path))) == []
