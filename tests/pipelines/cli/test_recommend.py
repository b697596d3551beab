"""`stepcast recommend`: a made-up study, questions, and questions that cannot be."""

import json
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from shutil import copytree

import polars as pl
import pytest

from forecasting.recommendation import SRIFT
from profilers.clusters import host_id
from tests.models.srift import study
from tests.pipelines.ran import Stepcast
from warehouse.landing import land
from warehouse.records import Prediction, Run, Scenario
from warehouse.warehouse import Warehouse, read_only

START = datetime(2020, 1, 10, tzinfo=UTC)
PRICES = [
    # (node type, region, zone, market, price, day of January 2020)
    ("fast", "east", "east-a", "spot", 1.0, 1),
    ("fast", "east", "east-b", "spot", 0.8, 2),
    ("fast", "east", "east-b", "spot", 9.0, 20),
    ("slow", "east", "east-a", "spot", 0.3, 3),
    ("fast", "west", "west-a", "spot", 0.1, 3),
    ("fast", "east", None, "on_demand", 2.0, 1),
    ("slow", "east", None, "on_demand", 0.9, 1),
]
ASKED = {
    "--system": "srift",
    "--model": "small_cnn",
    "--global-batch": "64",
    "--iterations": "3600",
    "--capacity": "fast=4",
    "--market": "spot",
    "--as-of": "2020-01-15",
    "--minimize": "cost",
    "--link-mbps": "200",
}


def run(
    run_id: str,
    probe: str,
    asked: Scenario | None,
    config: dict[str, float | None],
    host: str = "host",
    start: datetime = START,
) -> Run:
    """Return a profile run."""
    return Run(
        run_id=run_id,
        probe=probe,
        purpose="profile",
        study="made_up",
        repeat=1,
        scenario_id=None if asked is None else asked.scenario_id,
        backend="emulated",
        status="ok",
        started_at=start,
        ended_at=start + timedelta(minutes=1),
        host_id=host,
        host={"cpu": "x"},
        software={"torch": "2"},
        config=config,
    )


def land_profiles(landing: Path, host: str = "host", start: datetime = START) -> None:
    """Land every run of the made-up study but for prices, of a host."""
    kinds = {
        "torch_compute": study.profiles(),
        "slowdown": study.slowdowns(),
        "allreduce": study.rings(),
        "links": study.links(),
    }
    for probe, runs in kinds.items():
        for tables in runs:
            (run_id,), (config,) = tables["runs"]["run_id"], tables["runs"]["config"]
            asked = (
                Scenario.model_validate_json(tables["scenarios"]["canonical"][0])
                if "scenarios" in tables
                else None
            )
            rows = {
                study.TABLES[name]: table.drop("run_id")
                for name, table in tables.items()
                if name not in ("runs", "scenarios")
            }
            name = run_id if host == "host" else f"{run_id}-{host}"
            made = run(name, probe, asked, json.loads(config), host, start)
            land(landing, made, asked, rows)


def land_study(landing: Path) -> None:
    """Land every run of the made-up study, and prices."""
    land_profiles(landing)
    names_of = ["node_type", "region", "zone", "market", "usd_per_hour", "day"]
    prices = pl.DataFrame(PRICES, names_of, orient="row").with_columns(
        observed_at=pl.datetime(2020, 1, pl.col("day"), time_zone="UTC"),
        provider=pl.lit("aws"),
        source=pl.lit("made up"),
    )
    land(landing, run("prices", "price", None, {}), None, {"price": prices.drop("day")})


@pytest.fixture(scope="module")
def studied(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a home whose warehouse has the study, and one recommendation."""
    from forecasting.recommendation import Market, recommend
    from models.choice.advice import AdviceRequest

    home = tmp_path_factory.mktemp("studied")
    land_study(home / "landing")
    warehouse = Warehouse(home)
    warehouse.load()
    question = AdviceRequest(
        dnn="small_cnn", global_batch=64, iterations=1, minimize="time", link_mbps=200
    )
    recommend(warehouse, SRIFT, question, Market({"fast": 2, "slow": 4}, "spot", START))
    return home


@pytest.fixture
def home(studied: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a copy of it that a test may change."""
    copy = tmp_path / "home"
    copytree(studied, copy)
    monkeypatch.setenv("STEPCAST_HOME", str(copy))
    return copy


def options(**changes: str | None) -> list[str]:
    """Return the command with some options changed, None: left out."""
    asked = ASKED | {f"--{name.replace('_', '-')}": value for name, value in changes.items()}
    given = [(name, value) for name, value in asked.items() if value is not None]
    return ["recommend", *(word for pair in given for word in pair)]


def written(home: Path) -> dict[str, object]:
    """Return the newest recommendation of the ledger."""
    rows = read_only(home, "FROM pred.recommendation ORDER BY sequence DESC LIMIT 1")
    return rows.to_dicts()[0]


def test_the_choice_its_alternatives_and_the_rules_of_thumb(stepcast: Stepcast, home: Path) -> None:
    """64 samples take 2 nodes of 32 or 4 of 16; 48 fit, but loads are powers of two."""
    answer = stepcast(*options())
    assert answer.code == 0, answer.err
    lines = answer.out.splitlines()
    assert lines[1] == "srift recommends 2 fast@32 spot"
    rows = [line.split() for line in lines[3:]]
    table = [row for row in rows if row and row[0] in ("srift", "next", "CAP", "TAP")]
    assert [(row[0], "fast@16" in row, "fast@32" in row) for row in table] == [
        ("srift", False, True),
        ("next", True, False),
        ("CAP", False, True),
        ("TAP", False, True),
    ]
    assert "fast $0.1/h spot in west-a (made up, 2020-01-03)" in answer.out
    assert lines[2] == (
        "No forecast of srift has been judged on backend emulated: nothing says how far off this "
        "is."
    )
    row = written(home)
    choice = json.loads(str(row["choice"]))
    assert choice["nodes"] == [
        {"batch_size": 32, "count": 2, "devices": None, "market": "spot", "node_type": "fast"}
    ]
    for span in (choice["step_time_s"], choice["time_s"], choice["cost_usd"]):
        assert span["low"] < span["value"] < span["high"]
    assert choice["time_s"]["value"] == pytest.approx(3600 * choice["step_time_s"]["value"])
    assert choice["cost_usd"]["value"] == pytest.approx(0.2 * choice["time_s"]["value"] / 3600)
    assert row["fit_ids"] == read_only(home, "FROM fit.fit")["fit_id"].to_list()
    assert json.loads(str(row["constraints"]))["capacity"] == {"fast": 4}


def test_nodes_of_one_cluster_are_in_one_region(stepcast: Stepcast, home: Path) -> None:
    """The west has no slow nodes; in the east the cheapest zone counts, as of the day."""
    both = [*options(), "--capacity", "slow=4"]
    out = stepcast(*both).out
    assert "fast $0.8/h spot in east-b (made up, 2020-01-02)" in out
    assert "slow $0.3/h spot in east-a" in out
    later = stepcast(*options(as_of="2020-01-31"), "--capacity", "slow=4").out
    assert "fast $1/h spot in east-a" in later
    either = stepcast(*options(market="any"), "--capacity", "slow=4").out
    assert "fast $2/h on demand in east" in either
    prices = read_only(home, "FROM pred.price_snapshot")
    assert written(home)["price_snapshot"] in prices["price_snapshot"].to_list()


def test_an_answer_as_of_a_date_stays_as_it_was(stepcast: Stepcast, home: Path) -> None:
    first, ledger = stepcast(*options()).out, written(home)
    seen_at = datetime(2020, 1, 16, tzinfo=UTC)
    collected = run("later", "prices", None, {}).model_copy(
        update={"started_at": seen_at, "ended_at": seen_at}
    )
    # It held on the twelfth, which was seen on the sixteenth only.
    fell = {"zone": "west-a", "market": "spot", "observed_at": datetime(2020, 1, 12, tzinfo=UTC)}
    stayed = {"zone": None, "market": "on_demand", "observed_at": seen_at}
    price = {"provider": "aws", "node_type": "fast", "region": "west", "source": "seen"}
    rows = [price | one | {"usd_per_hour": 0.01} for one in (fell, stayed)]
    land(home / "landing", collected, None, {"price": pl.DataFrame(rows)})
    assert Warehouse(home).load().loaded == ("later",)
    assert stepcast(*options()).out == first
    assert written(home) == ledger
    assert "fast $0.01/h spot in west-a (seen," in stepcast(*options(as_of="2020-01-17")).out


def test_a_deadline_that_cannot_be_met_says_what_to_relax(stepcast: Stepcast, home: Path) -> None:
    answer = stepcast(*options(max_hours="0.01", budget_usd="0.5", minimize="time"))
    assert answer.code == 0
    assert "srift: no feasible choice; raise the deadline from 36.0 s to" in answer.out
    assert "CAP" in answer.out
    assert "time exceeded" in answer.out
    assert written(home)["choice"] is None


def test_what_nodes_cost_an_hour_is_a_limit_too(stepcast: Stepcast, home: Path) -> None:
    answer = stepcast(*options(max_usd_per_hour="0.001", minimize="time"))
    assert answer.code == 0
    assert ", at $0.001 an hour at most: least time" in answer.out
    assert "srift: no feasible choice; allow $" in answer.out
    assert "price an hour exceeded" in answer.out
    assert json.loads(str(written(home)["constraints"]))["max_usd_per_hour"] == 0.001


def test_what_more_money_buys_is_shown_and_drawn(
    stepcast: Stepcast, home: Path, tmp_path: Path
) -> None:
    picture = tmp_path / "front.svg"
    asked = [*options(minimize="time"), "--capacity", "slow=4", "--picture", str(picture)]
    answer = stepcast(*asked)
    assert answer.code == 0, answer.err
    table = answer.out.partition("What more money buys")[2].partition("Prices as of")[0]
    found = re.findall(r"(\d.*spot) .* ([\d.]+) \(\S+ to \S+ +\$([\d.]+) \(", table)
    hours, costs = [float(row[1]) for row in found], [float(row[2]) for row in found]
    assert len(found) > 1
    assert hours == sorted(hours)
    assert costs == sorted(costs, reverse=True)
    best = json.loads(str(written(home)["choice"]))
    assert hours[0] == pytest.approx(best["time_s"]["value"] / 3600, rel=0.01)
    stepcast(*options(minimize="cost"), "--capacity", "slow=4")
    cheapest = json.loads(str(written(home)["choice"]))
    assert costs[-1] == pytest.approx(cheapest["cost_usd"]["value"], rel=0.01)
    assert "Pareto front" in picture.read_text()
    assert answer.out.endswith(f"{picture}\n")


def test_the_answer_for_programs(stepcast: Stepcast, home: Path) -> None:
    answer = stepcast(*options(), "--json")
    assert answer.code == 0, answer.err
    told = json.loads(answer.out)
    assert told["choice"] == json.loads(str(written(home)["choice"]))
    assert told["choice"] == told["front"][-1]
    assert set(told["policies"]) == {"CAP", "TAP"}
    assert told["question"]["capacity"] == {"fast": 4}
    assert told["recommendation_id"] == written(home)["recommendation_id"]


def test_whose_runs_answered_is_said(stepcast: Stepcast, home: Path) -> None:
    assert "Backend emulated, host host, which is not this one." in stepcast(*options()).out
    told = json.loads(stepcast(*options(), "--json").out)
    assert (told["backend"], told["host_id"], told["this_host"]) == ("emulated", "host", False)


@pytest.mark.exhaustive
def test_runs_of_this_host_go_before_newer_ones_of_another(stepcast: Stepcast, home: Path) -> None:
    here = host_id("emulated")
    land_profiles(home / "landing", here, START - timedelta(days=1))
    Warehouse(home).load()
    assert "Backend emulated, this host." in stepcast(*options()).out
    told = json.loads(stepcast(*options(), "--json").out)
    assert (told["host_id"], told["this_host"]) == (here, True)


def test_the_front_is_shown_only_where_it_is_asked_for(stepcast: Stepcast, home: Path) -> None:
    assert "What more money buys" not in stepcast(*options()).out
    assert "What more money buys" in stepcast(*options(), "--front").out


def test_how_wrong_it_has_been_is_shown_with_n_and_noise(stepcast: Stepcast, home: Path) -> None:
    warehouse = Warehouse(home)
    (fit_id,) = read_only(home, "FROM fit.fit")["fit_id"]
    for workers, rounds in ((2, (1, 2)), (3, (1,))):
        asked = study.scenario(study.group("fast", workers))
        forecast = Prediction(
            system="srift",
            model_version="1",
            fit_id=fit_id,
            subject_id=asked.scenario_id,
            backend="emulated",
            host_id="host",
            study="made_up",
            repeat=1,
            metric="step_time_s",
            unit="s",
            value=0.9,
            low=0.5,
            high=1.1,
            code_version="x",
            made_at=START,
        )
        warehouse.record_predictions([forecast])
        for repeat in rounds:
            ran = run(f"ddp{workers}-{repeat}", "torch_throughput", asked, {}).model_copy(
                update={"purpose": "measurement", "repeat": repeat}
            )
            sample = {"metric": ["step_time_s"], "unit": ["s"], "window": [0], "value": [1.0]}
            land(home / "landing", ran, asked, {"sample": pl.DataFrame(sample)})
    warehouse.load()
    out = stepcast(*options()).out
    assert "How wrong srift has been on backend emulated:" in out
    held_out = next(line for line in out.splitlines() if line.startswith("  held out world size"))
    assert held_out == (
        "  held out world size: mean error 10.0 %, in 90 % of cases underestimated by at most "
        "10.0 %, 1 of 1 inside their interval, too few to judge, n = 1; noise floor not measured"
    )
    seen = next(line for line in out.splitlines() if line.startswith("  seen"))
    assert seen.endswith("n = 1; noise floor 0.0 % (n = 1)")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"budget_usd": "-3"}, "--budget-usd: expected a number above 0, found -3"),
        ({"max_usd_per_hour": "0"}, "--max-usd-per-hour: expected a number above 0, found 0"),
        ({"max_hours": "0"}, "--max-hours: expected a number above 0, found 0"),
        ({"global_batch": "0"}, "--global-batch: expected a number above 0, found 0"),
        (
            {"model": "vgg11", "image_size": "16"},
            "DNN 'vgg11' needs images of at least 32 pixels a side, found 16: raise image_size to",
        ),
        ({"model": "resnet51"}, "unknown DNN 'resnet51': the closest are resnet50"),
        (
            {"model": "resnet50"},
            "resnet50 has no compute profile, only alexnet at 64 px, small_cnn at 64 px have one; "
            "list it in a study and `stepcast run STUDY.yaml`",
        ),
        (
            {"global_batch": "1024"},
            "a global batch of 1024 fits nowhere: offer more nodes: those on offer hold 128 of "
            "1024 samples",
        ),
        ({"global_batch": "7", "capacity": "fast=1"}, "a global batch of 7 fits nowhere: change"),
        ({"capacity": "fast"}, "--capacity 'fast': expected TYPE=COUNT"),
        (
            {"capacity": "fast=10001"},
            "expected at most 10,000 nodes of a type to rent, found 10,001",
        ),
        ({"capacity": "fast=0"}, "--capacity 'fast=0': expected TYPE=COUNT"),
        (
            {"capacity": "other=2"},
            "no spot price of node type 'other' as of 2020-01-15 is known; `stepcast prices "
            "collect --type other` asks AWS, and `stepcast import csv node_prices.csv` takes ",
        ),
        (
            {"capacity": "p3.8xlarge=2"},
            "node type 'p3.8xlarge' has no compute profile of this network; profiled are fast, "
            "slow; list it in a study and `stepcast run STUDY.yaml`",
        ),
        ({"link_mbps": "300"}, "links of 300 Mb/s were not probed, only 200 Mb/s, 400 Mb/s"),
        ({"link_mbps": None}, "links of several speeds were probed (200, 400): choose one"),
        ({"system": "lin"}, "no system 'lin' recommends; those that do are srift"),
        ({"model": "a.b:c"}, "--model a.b:c: the search of srift knows only networks of Stepcast"),
        ({"picture": "front.gif"}, "--picture front.gif: expected a name that ends in .png or"),
        ({"backend": "ec2"}, "srift has no profile runs on backend ec2 (links, allreduce, "),
        ({"as_of": "2019-01-01"}, "no spot price of node type 'fast' as of 2019-01-01 is known"),
    ],
)
def test_bad_input_is_one_clear_line(
    stepcast: Stepcast, home: Path, changes: dict[str, str | None], said: str
) -> None:
    before = read_only(home, "FROM pred.recommendation").height
    answer = stepcast(*options(**changes))
    assert (answer.code, answer.out) == (2, "")
    assert answer.err.startswith(f"stepcast: {said}")
    assert answer.err.count("\n") == 1
    assert read_only(home, "FROM pred.recommendation").height == before


def test_without_a_warehouse(
    stepcast: Stepcast, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STEPCAST_HOME", str(tmp_path))
    answer = stepcast(*options())
    assert (answer.code, answer.out) == (2, "")
    assert "no warehouse in" in answer.err
