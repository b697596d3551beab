"""Steps on other hosts tell of this one, where both have inventories: as asked, and as studied."""

from pathlib import Path
from shutil import copytree

import pytest

from forecasting import fits
from forecasting.fits import newest_kept_fit
from forecasting.forecast import ForecastAnswer, predict_curves
from forecasting.forecast_history import write_forecasts
from forecasting.inputs import systems_named, systems_of
from forecasting.round_forecasts import fit_round, predict_missing
from forecasting.study_checks import check_forecasts
from models.predictddl import training_set
from profilers.clusters import host_id
from studies.messages import Progress
from studies.rounds import Round
from studies.study import read_study
from tests import my_history, synthetic
from tests.made_run import raw_table
from tests.my_history import WORKER, of_host
from warehouse.landing import land, landed_runs
from warehouse.records import BadInput
from warehouse.warehouse import Warehouse

THERE = "5e1f5e1f5e1f5e1f"
OTHER = "emu.native.s15"
SLOW, FAST = 1.0, 2.0
STUDY = f"""
name: another
backend: loopback
systems: [log_linear]
learns_from: [made_up]
probes:
  inventory: {{}}
test:
  - {{dnn: resnet34, framework: pytorch, strategy: all_reduce, image_size: 64, batch_size: 8,
     worker: {WORKER}, link_mbps: 1000, workers: [2]}}
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = my_history.build(tmp_path_factory.mktemp("there") / "home", THERE)
    my_history.train(home, THERE, OTHER, 2.0)
    Warehouse(home).load()
    return home


@pytest.fixture
def home(built: Path, tmp_path: Path) -> Path:
    """Return a home with steps of another host on two node types, one twice as slow."""
    return Path(copytree(built, tmp_path / "home"))


def take_inventories_there(home: Path) -> None:
    take_inventory(home, THERE, SLOW)
    take_inventory(home, THERE, SLOW / 2, OTHER)


def take_inventory(
    home: Path, host: str, speed: float, worker: str = WORKER, study: str = "made_up"
) -> None:
    """Land an inventory of a node type on a host that is so fast."""
    rates = {"dense_flops": 1e10, "depthwise_flops": 1e9, "memory_Bps": 1e9, "disk_Bps": 1e8}
    rows = [(f"inventory_{name}", name[-3:], 0, speed * rate) for name, rate in rates.items()]
    sample = raw_table("sample", "metric unit window value", rows)
    name = f"inventory-{study}-{host}-{worker}"
    run = of_host("inventory", name, {"worker": worker}, None, host, study)
    land(home / "landing", run, None, {"sample": sample})


def asked(home: Path) -> ForecastAnswer:
    warehouse = Warehouse(home)
    warehouse.load()
    curve = my_history.curve_of("resnet34", WORKER).model_copy(update={"workers": (2,)})
    return predict_curves(warehouse, [curve], systems_named(["log_linear", "ideal_scaling"]))


def reasons(answer: ForecastAnswer) -> dict[str, str]:
    return {refusal.system.name: refusal.reason for refusal in answer.refused}


def test_inventories_do_for_a_forecast_of_this_host(home: Path) -> None:
    take_inventories_there(home)
    (before,) = asked(home).forecasts
    assert before.split == "held_out_dnn"
    take_inventory(home, host_id("loopback"), FAST)
    answer = asked(home)
    (now,) = answer.forecasts
    assert answer.chosen_host.is_here
    assert answer.chosen_host.host_id == host_id("loopback")
    assert (now.system.name, now.split) == ("log_linear", "held_out_host")
    assert {run.host_id for run in now.fit.runs} == {THERE, host_id("loopback")}
    assert now.value is not None
    assert before.value is not None
    # Nodes called alike are twice as fast here.
    assert now.value < 0.8 * before.value
    # Profiles of the network itself do not travel.
    assert "no torch_compute of resnet34" in reasons(answer)["ideal_scaling"]


def test_nodes_there_without_an_inventory_do_not_do(home: Path) -> None:
    take_inventory(home, host_id("loopback"), FAST)
    assert "no torch_throughput of other networks" in reasons(asked(home))["log_linear"]
    take_inventory(home, THERE, SLOW)
    (now,) = asked(home).forecasts
    types = {name for run in now.fit.runs for name in run.subject.worker_types}
    assert types == {WORKER}


def test_nodes_here_need_an_inventory_too(home: Path) -> None:
    take_inventories_there(home)
    run = of_host("torch_compute", "compute-here", {"worker": WORKER}, None)
    land(home / "landing", run, None, {})
    answer = asked(home)
    assert answer.chosen_host.is_here
    assert reasons(answer)["log_linear"] == f"no inventory of {WORKER} nodes"
    take_inventory(home, host_id("loopback"), FAST)
    assert asked(home).forecasts


def test_few_steps_here_count_beside_many_elsewhere(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = host_id("loopback")
    take_inventories_there(home)
    my_history.train(home, here)

    def hosts() -> list[set[str]]:
        return [{run.host_id for run in forecast.fit.runs} for forecast in asked(home).forecasts]

    # Without an inventory nothing says how nodes of the two hosts compare.
    assert hosts() == [{here}]
    take_inventory(home, here, FAST)
    (now,) = asked(home).forecasts
    assert now.split == "few_on_host"
    assert hosts() == [{here, THERE}]
    steps = [run for run in now.fit.runs if run.subject.probe == "torch_throughput"]
    assert len([run for run in steps if run.host_id == here]) == 12
    monkeypatch.setattr(training_set, "OWN_STEPS", 12)
    assert hosts() == [{here, THERE}]
    monkeypatch.setattr(training_set, "OWN_FAMILIES", 4)
    assert hosts() == [{here}]


def test_a_fit_about_one_host_is_not_loaded_for_the_other(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fits, "code_version", lambda: "v1-0-g1234567")
    here = host_id("loopback")
    take_inventories_there(home)
    my_history.train(home, here)
    take_inventory(home, here, FAST)
    warehouse = Warehouse(home)
    (now,) = asked(home).forecasts
    write_forecasts([now], asked(home).chosen_host, warehouse)
    fit, known = now.fit, warehouse.query("fits")
    kept = newest_kept_fit(fit.group, fit.row_count, here, known)
    assert kept is not None
    assert kept["fit_id"] == fit.fit_id
    assert newest_kept_fit(fit.group, fit.row_count, THERE, known) is None


def test_inventories_of_all_nodes_with_steps_count_on_one_host_too(home: Path) -> None:
    take_inventories_there(home)
    (only,) = asked(home).forecasts
    run_ids = {run.run_id for run in only.fit.runs if run.subject.probe == "inventory"}
    assert run_ids == {f"inventory-made_up-{THERE}-{name}" for name in (WORKER, OTHER)}


def opened(home: Path, folder: Path) -> Round:
    file = folder / "another.yaml"
    file.write_text(STUDY)
    study = read_study(file)
    Warehouse(home).load()
    runs = landed_runs(home / "landing")
    return synthetic.opened(study, "loopback", host_id("loopback"), runs)


def test_a_study_learns_from_another(home: Path, tmp_path: Path) -> None:
    take_inventories_there(home)
    take_inventory(home, host_id("loopback"), FAST, study="another")
    round_ = opened(home, tmp_path)
    assert [(need.probe, need.purpose) for need in round_.missing] == [
        ("torch_throughput", "measurement")
    ]
    warehouse = Warehouse(home)
    (system,) = systems_of(round_.study)
    rows = predict_missing(system, round_, warehouse, Progress())
    assert rows["host_id"].to_list() == [host_id("loopback")]
    (same,) = asked(home).forecasts
    assert rows["value"].to_list() == [pytest.approx(same.value)]


def test_what_a_study_learns_from_has_inventories(home: Path, tmp_path: Path) -> None:
    take_inventory(home, host_id("loopback"), FAST, study="another")
    round_ = opened(home, tmp_path)
    (system,) = systems_of(round_.study)
    with pytest.raises(BadInput, match="made_up have no profile runs of inventory"):
        fit_round(system, round_, Warehouse(home), Progress())


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (STUDY.replace("[made_up]", "[made_up, made_up]"), "should name each once"),
        (STUDY.replace("[made_up]", "[another]"), "learns from its own train scenarios"),
    ],
)
def test_a_study_learns_from_others_once(text: str, told: str, tmp_path: Path) -> None:
    (tmp_path / "bad.yaml").write_text(text)
    with pytest.raises(BadInput, match=told):
        read_study(tmp_path / "bad.yaml")


def test_a_study_that_learns_elsewhere_names_the_inventory(tmp_path: Path) -> None:
    text = STUDY.replace("probes:\n  inventory: {}\n", "")
    (tmp_path / "bare.yaml").write_text(text)
    with pytest.raises(BadInput, match="knows nodes by inventory; name that under probes"):
        check_forecasts(read_study(tmp_path / "bare.yaml"), tmp_path / "bare.yaml", "loopback")
