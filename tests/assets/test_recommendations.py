"""What lineage has of recommendations, on a small history of reference runs."""

import json
from collections.abc import Mapping
from pathlib import Path
from shutil import copytree

import pytest
import yaml
from dagster import TableSchemaMetadataValue, materialize

from assets import resources
from assets.forecasts import ITERATIONS, questions_of_round, recommendations
from assets.metadata import comments
from assets.resources import RoundsResource, WarehouseResource
from assets.study_lineage import read_lineage
from forecasting.inputs import inputs_of_study
from forecasting.study_checks import LoadedStudy
from models.ceer.systems import CEER, CEER_PYTORCH
from models.srift.system import SRIFT
from models.system import System
from studies.messages import Progress
from studies.rounds import Round
from studies.study import Study, read_study
from tests.small_history import PYTORCH
from tests.synthetic import write_study
from warehouse.home import CHECKOUT
from warehouse.warehouse import Warehouse

STUDY = CHECKOUT / "studies" / f"{PYTORCH}.yaml"


@pytest.mark.exhaustive
def test_a_study_recommends_the_cheapest_nodes_for_its_networks(
    small_history: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copytree(small_history, home, dirs_exist_ok=True)
    lineage, history = read_lineage(STUDY), Warehouse(home)
    ready = LoadedStudy(
        lineage.study,
        inputs_of_study(lineage.study),
        "emulated",
        "the reference was measured there",
    )
    (host,) = (
        history.query("runs", study=PYTORCH)
        .join(history.visible("run"), on="run_id")["host_id"]
        .unique()
    )
    monkeypatch.setattr(resources, "load_unchecked", lambda path, backend: ready)
    monkeypatch.setattr(resources, "host_id", lambda backend: host)
    (asset,) = recommendations(lineage)
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
    descriptions = {column.name: column.description for column in schema.schema.columns}
    assert (
        descriptions["recommendation_id"]
        == "Hash of everything but code_version, made_at, sequence and sha256"
    )
    assert "value" not in comments(warehouse), "tables say different things of it"
    assert comments(warehouse, "pred.ledger")["value"].startswith("The forecast, in the unit")
    (recommendation,) = history.query("recommendations").to_dicts()
    assert recommendation["system"] == "srift"
    job, choice = json.loads(recommendation["job"]), json.loads(recommendation["choice"])
    assert job["samples"] == ITERATIONS * job["global_batch"]
    assert "emu.avx512" in choice["nodes"]
    assert choice["time_s"] == choice["train_s"]
    assert history.query("forecasts_of_fits").filter("merely_asked").is_empty()


def test_only_systems_that_recommend_have_an_asset(tmp_path: Path) -> None:
    assert recommendations(read_lineage(write_study(tmp_path))) == []


MIXED = """
name: paper
systems: [ceer, async_sgd]
probes: {tf_sync: {windows: 2, window_s: 1}}
train:
  - {dnn: alexnet, strategy: all_reduce, image_size: 64, batch_size: 4, worker: emu.native.c25,
     link_mbps: 800, workers: [1, 2, 4]}
test:
  - {dnn: small_cnn, strategy: all_reduce, image_size: 24, batch_size: 4, worker: emu.native.c25,
     link_mbps: 800, workers: [2, 4]}
  - {dnn: small_cnn, strategy: all_reduce, image_size: 24, batch_size: 4, worker: emu.sse41.s15,
     link_mbps: 800, workers: [8]}
  - {dnn: small_cnn, image_size: 24, batch_size: 64, worker: emu.native.c25, server: emu.server,
     link_mbps: 800, workers: [8]}
"""


def asked(study: Study, system: System) -> dict[str, tuple[int | None, Mapping[str, int]]]:
    """Return the global batch and the nodes on offer of each network."""
    round_ = Round(study, inputs_of_study(study), "emulated", "host-1", 1, ())
    return {
        question.dnn: (question.global_batch, capacity)
        for question, capacity in questions_of_round(round_, system)
    }


def test_questions_are_about_what_a_system_forecasts_on_nodes_that_were_profiled() -> None:
    """Neither asynchronous training nor a node type without a train scenario is asked about."""
    study = Study.model_validate(yaml.safe_load(MIXED))
    assert asked(study, CEER) == {"small_cnn": (16, {"emu.native.c25": 4})}


def test_nodes_on_offer_are_those_that_a_network_was_tested_on() -> None:
    study = read_study(CHECKOUT / "studies" / "reference_grid.yaml")
    on_third = {"efficientnet_b0", "resnet14", "resnext26_32x4d", "seresnet18"}
    by_ceer, by_srift = asked(study, CEER_PYTORCH), asked(study, SRIFT)
    assert len(by_ceer) == len(by_srift) == 24
    types = {name for _, capacity in by_ceer.values() for name in capacity}
    assert types == {"emu.avx2.s15", "emu.avx512.s15"}
    assert {dnn for dnn, (_, on) in by_srift.items() if "emu.sse41.s15" in on} == on_third
