import polars as pl
import pytest
from pydantic import ValidationError

from tests.made_run import all_reduce, worker_nodes
from tests.models.runs import scenario
from tests.warehouse.conftest import Maker
from warehouse.home import CHECKOUT
from warehouse.records import Backend, Scenario, Strategy, content_hash

REFERENCE = CHECKOUT / "data" / "reference"


def test_what_was_added_later_leaves_scenarios_their_ids() -> None:
    plain = scenario(2, servers=2)
    assert "placement" not in plain.canonical_json()
    assert plain.scenario_id == scenario(2, servers=2, placement="round_robin").scenario_id
    assert "cross_traffic" not in plain.canonical_json()
    assert scenario().scenario_id == "f0404bad92a9dccc"


def test_what_has_landed_keeps_its_ids_and_labels() -> None:
    """Of all reference studies: 1,162 scenarios of 1,761 runs, two thirds of them about one."""
    landed = pl.read_parquet(REFERENCE / "*" / "scenario.parquet")
    known = landed.unique("scenario_id").sort("scenario_id")
    assert known.height == 1162
    texts = dict(known.select("scenario_id", "canonical").iter_rows())
    read = {name: Scenario.model_validate_json(text) for name, text in texts.items()}
    assert {name: scenario.canonical_json() for name, scenario in read.items()} == texts
    assert [scenario.scenario_id for scenario in read.values()] == list(texts)
    assert {scenario.workload.recipe for scenario in read.values()} == {""}
    labels = "\n".join(scenario.label for scenario in read.values())
    assert content_hash(labels) == "9c09a077f5bf8c8e"
    runs = pl.read_parquet(REFERENCE / "*" / "run.parquet", columns=["run_id", "scenario_id"])
    assert runs.height == runs.n_unique("run_id") == 1761
    of_scenarios = runs.drop_nulls("scenario_id").sort("run_id").select("run_id", "scenario_id")
    assert of_scenarios.equals(landed.select("run_id", "scenario_id").sort("run_id"))


def test_how_a_network_is_trained_is_part_of_a_scenario_and_its_label() -> None:
    plain = replicas(2)
    load = {"precision": "bfloat16", "optimizer": "adamw", "accumulate": 4, "sequence_length": 128}
    other = plain.model_copy(
        update={"workload": plain.workload.model_copy(update=load | {"image_size": 0})}
    )
    assert other.label == (
        "resnet18 128 words b8, bfloat16, adamw, 4 passes a step, 300 Mb/s, all-reduce, W=2 "
        "(2 emu.1c)"
    )
    assert Scenario.model_validate_json(other.canonical_json()) == other
    for name, value in load.items():
        changed = plain.workload.model_copy(update={name: value})
        variant = plain.model_copy(update={"workload": changed})
        assert variant.scenario_id != plain.scenario_id
        assert (variant.training == plain.training) == (name == "sequence_length")
        back = changed.model_copy(update={name: getattr(plain.workload, name)})
        assert variant.model_copy(update={"workload": back}).scenario_id == plain.scenario_id


def test_one_device_alone_is_another_strategy_than_one_replica() -> None:
    replica = replicas(1).model_copy(update={"link_mbps": None})
    alone = replica.model_copy(update={"strategy": Strategy.model_validate({"kind": "single"})})
    assert '"strategy":{"kind":"single","servers":0,"workers":1}' in alone.canonical_json()
    assert Scenario.model_validate_json(alone.canonical_json()) == alone
    assert alone.scenario_id != replica.scenario_id
    assert alone.training != replica.training
    assert alone.label == "resnet18 64px b8, single (1 emu.1c)"


def test_cross_traffic_is_part_of_a_scenario() -> None:
    shaped = scenario().model_copy(update={"link_mbps": 200.0})
    beside = shaped.model_copy(update={"cross_traffic": 0.3})
    assert beside.scenario_id != shaped.scenario_id
    assert Scenario.model_validate_json(beside.canonical_json()) == beside
    assert "200 Mb/s, 30% cross traffic, W=1" in beside.label
    with pytest.raises(ValueError, match="link_mbps, which is missing"):
        Scenario.model_validate_json(beside.canonical_json().replace("200.0", "null"))


def replicas(workers: int) -> Scenario:
    """Return a scenario without parameter servers."""
    return all_reduce(worker_nodes("emu.1c", workers), link_mbps=300, dnn="resnet18")


def test_a_group_may_have_a_batch_of_its_own() -> None:
    (group,) = replicas(2).nodes
    assert "batch_size" not in group.canonical_json()
    slow = group.model_copy(update={"node_type": "slow", "batch_size": 4})
    mixed = all_reduce(group, slow, dnn="resnet18")
    assert Scenario.model_validate_json(mixed.canonical_json()) == mixed
    assert mixed.label.endswith(", all-reduce, W=4 (2 emu.1c + 2 slow b4)")
    for wrong, message in (
        ({"batch_size": 8, "count": 2}, "repeats batch_size 8 of the workload"),
        ({"batch_size": 4, "count": 1}, "asks for 4 worker"),
    ):
        other = group.model_copy(update=wrong)
        with pytest.raises(ValueError, match=message):
            Scenario(workload=mixed.workload, strategy=mixed.strategy, nodes=(group, other))
    served = scenario(1)
    own = tuple(node.model_copy(update={"batch_size": 3}) for node in served.nodes)
    with pytest.raises(ValueError, match="only nodes of an all_reduce"):
        Scenario(workload=served.workload, strategy=served.strategy, nodes=own)


@pytest.mark.parametrize(
    ("strategy", "link_mbps", "told"),
    [
        ({"kind": "single", "workers": 2}, None, "single is one device, found 2 workers of 1"),
        ({"kind": "single", "devices_per_node": 4}, None, "found 1 workers of 4; several train"),
        ({"kind": "single", "servers": 1}, None, "strategy single has no parameter servers"),
        ({"kind": "single"}, 100.0, "a single device has no link; leave out link_mbps"),
        ({"kind": "all_reduce", "workers": 2, "servers": 1}, 100.0, "leave out servers"),
        ({"kind": "all_reduce", "workers": 2, "order": "tic"}, 100.0, "no parameter servers"),
        ({"workers": 2, "servers": 0}, 100.0, "needs servers and one device per node, found 0"),
        ({"workers": 2, "devices_per_node": 2}, 100.0, "found 1 servers and 2 devices"),
    ],
)
def test_what_a_strategy_does_not_have_is_refused(
    strategy: dict[str, object], link_mbps: float | None, told: str
) -> None:
    fields = replicas(1).model_dump(mode="json") | {"strategy": strategy, "link_mbps": link_mbps}
    with pytest.raises(ValidationError, match=told):
        Scenario.model_validate(fields)


@pytest.mark.parametrize(("backend", "histories"), [("ec2", 1), ("emulated", 2)])
def test_prices_of_rented_nodes_keep_figures_comparable(
    make: Maker, backend: Backend, histories: int
) -> None:
    for place, usd_per_hour in enumerate((0.11, 0.12)):
        run = make.run(f"r{place}", make.scenario(2), "measurement", minute=place)
        config = {**run.config, "usd_per_hour": usd_per_hour}
        run = run.model_copy(update={"backend": backend, "config": config})
        sample = {"metric": ["m"], "unit": ["s"], "window": [0], "value": [1.0]}
        make.land(run, make.scenario(2), {"sample": pl.DataFrame(sample)})
    make.warehouse.load()
    rows = make.rows("SELECT DISTINCT comparable_id FROM report.history WHERE metric = 'm'")
    assert rows.height == histories
