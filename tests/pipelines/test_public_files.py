"""Public measurements: fits see their part, the rest judges, and never the other way round."""

import json
from pathlib import Path
from random import Random

import polars as pl
import pytest

from forecasting.public_files import PUBLIC_SETS
from models.systems import SYSTEMS
from pipelines import reproduction
from warehouse.warehouse import Warehouse, read_only

CMDARE = "path,gpu,n_ps,model,n_workers,n_points,median_global_steps_s,mean_after_warm,"
CMDARE += "std_after_warm,wall_steps_s_after_warm\n"
ASYNC = {("res", 1): 10.0, ("res", 2): 16.0, ("vgg", 1): 4.0, ("vgg", 4): 8.0, ("alex", 2): 7.0}
SIA = "model,cluster,kind,placement,num_nodes,num_replicas,local_bsz,step_time,sync_time\n"
STEPS = [(1, 1, 1, 0.5), (2, 1, 2, 0.8), (2, 1, 2, 1.0), (11, 2, 2, 1.0), (11, 2, 2, 1.25)]
STEPS += [(12, 2, 3, 1.8), (3, 1, 3, 1.0), (44, 2, 8, 2.0)]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return write(tmp_path / "data")


def write(folder: Path, factors: Random | None = None) -> Path:
    """Write both files; each figure that is held out is multiplied by a factor."""

    def altered(value: float, *, held_out: bool) -> float:
        return value * factors.uniform(0.01, 100) if factors and held_out else value

    folder.mkdir()
    lines = [
        f"p,K80,1,{dnn},{workers},9,1,1,1,{altered(value, held_out=workers > 1)}\n"
        for (dnn, workers), value in ASYNC.items()
    ]
    (folder / "async_ps_cmdare.csv").write_text(CMDARE + "".join(lines))
    lines = [
        f"bert,aws,placements,{placement}.0,{nodes},{replicas},4.0,"
        f"{altered(seconds, held_out=nodes > 1)},0.1\n"
        for placement, nodes, replicas, seconds in STEPS
    ]
    (folder / "ddp_step_time_sia.csv").write_text(SIA + "".join(lines))
    return folder


def judged(data: Path, home: Path) -> tuple[list[str], pl.DataFrame]:
    warehouse = Warehouse(home)
    return list(reproduction.judge_public_files(data, warehouse)), warehouse.accuracy()


def test_forecasts_are_judged_by_what_was_held_out(data: Path, tmp_path: Path) -> None:
    lines, accuracy = judged(data, tmp_path / "home")
    start = "async_ps_cmdare.csv: linear saw 2 rows and forecasts throughput_steps_per_s of 2 of 3"
    assert any(line.startswith(start) for line in lines)
    assert any("forecasts step_time_s of 2 of 3 subjects held out" in line for line in lines)
    rows = {
        (row["study"], json.loads(row["label"])["world_size"]): row for row in accuracy.to_dicts()
    }
    assert len(rows) == accuracy.height == 4
    rates = [rows["async_ps_cmdare", workers] for workers in (2, 4)]
    # Linear: 2 x 10 for 16 and 4 x 4 for 8; nobody saw what one alex does.
    assert [(row["predicted"], row["measured"]) for row in rates] == [(20, 16), (16, 8)]
    assert [row["error_percent"] for row in rates] == pytest.approx([25, 100])
    assert {row["split"] for row in rates} == {"held_out_world_size"}
    pair, three = (rows["ddp_step_time_sia", replicas] for replicas in (2, 3))
    # 1 + 1 is one per node: 0.5 s, measured in 1 and 1.25 s; 2 + 1 is at most two: the mean 0.9 s.
    assert (pair["predicted"], pair["measured"]) == (0.5, 1.125)
    assert (three["predicted"], three["measured"]) == (pytest.approx(0.9), 1.8)
    assert (pair["split"], three["split"]) == ("held_out_scenario", "held_out_scenario")
    # 1.25 for 1 and 1 for 1.25.
    assert (pair["noise_floor_percent"], pair["noise_runs"]) == (pytest.approx(22.5), 2)
    assert (three["noise_floor_percent"], three["noise_runs"]) == (None, 0)
    assert set(accuracy["backend"]) == {"imported"}
    assert set(accuracy["scenario_id"]) == {None}


@pytest.mark.exhaustive
def test_factors_on_what_is_held_out_change_no_forecast(data: Path, tmp_path: Path) -> None:
    other = write(tmp_path / "other", Random(7))
    ledgers, measured = [], []
    for folder in (data, other):
        home = tmp_path / f"home of {folder.name}"
        _, accuracy = judged(folder, home)
        columns = ["system", "subject_id", "metric", "value", "low", "high"]
        statement = f"SELECT {', '.join(columns)} FROM pred.ledger ORDER BY ALL"
        ledgers.append(read_only(home, statement).write_csv().encode())
        measured.append(accuracy["measured"].sort())
    assert ledgers[0] == ledgers[1]
    assert not measured[0].equals(measured[1])


def test_what_is_held_out_is_not_there_when_it_is_forecast(data: Path, tmp_path: Path) -> None:
    home = tmp_path / "home"
    judged(data, home)
    orders = read_only(
        home,
        "SELECT study, max(ledger.sequence) < min(loaded.sequence) AS first FROM pred.ledger "
        "JOIN raw.run USING (study) JOIN meta.loaded AS loaded USING (run_id) "
        "WHERE purpose = 'measurement' GROUP BY study",
    )
    assert sorted(orders.rows()) == [("async_ps_cmdare", True), ("ddp_step_time_sia", True)]
    seen = read_only(home, "SELECT DISTINCT subject ->> 'nodes' FROM visible.external ORDER BY 1")
    assert seen.rows() == [("1",), (None,)]


def test_a_file_of_which_fits_may_see_nothing(data: Path, tmp_path: Path) -> None:
    (data / "async_ps_cmdare.csv").write_text(CMDARE + "p,K80,1,res,2,9,1,1,1,16\n")
    lines, accuracy = judged(data, tmp_path / "home")
    assert "async_ps_cmdare.csv: no row that linear may see; no forecasts" in lines
    assert set(accuracy["study"]) == {"ddp_step_time_sia"}


NCCL = "system,repo,commit,path,block,collective,nodes,gpus_per_node,ranks,ranks_listed,env_setup,"
NCCL += "gpu,size_B,count,dtype,redop,oop_time_us,oop_algbw_GBs,oop_busbw_GBs,ip_time_us,"
NCCL += "ip_algbw_GBs,ip_busbw_GBs,ranks_inferred_if_allreduce\n"


def test_a_name_is_of_a_whole_system_or_of_its_own(tmp_path: Path) -> None:
    """Exchanges of imagenet are twice, of bert four times cifar10's: a polish finds them."""
    data = tmp_path / "data"
    data.mkdir()
    size, slowness_s = {"cifar10": 1.0, "imagenet": 2.0, "bert": 4.0}, {1: 0.0, 2: 0.01, 11: 0.1}
    lines = [
        f"{dnn},aws,placements,{place}.0,{nodes},{replicas},4.0,"
        f"{0.5 + times * slowness_s[place]},0.1\n"
        for dnn, times in size.items()
        for place, nodes, replicas in ((1, 1, 1), (2, 1, 2), (11, 2, 2))
    ]
    (data / "ddp_step_time_sia.csv").write_text(SIA + "".join(lines))
    home = tmp_path / "home"
    _, accuracy = judged(data, home)
    polished = accuracy.filter(system="median_polish")
    assert polished.height == len(size)
    assert polished["ape_percent"].to_list() == pytest.approx([0.0] * len(size), abs=1e-6)
    registered = read_only(home, "SELECT what FROM pred.system WHERE name = 'median_polish'")
    assert "slowness of a placement" in registered["what"][0]
    entered = {contender.system for public in PUBLIC_SETS for contender in public.contenders}
    whole = {system.name for system in SYSTEMS if not system.name.startswith("linear")}
    assert entered & whole == {"lin", "cynthia"}
