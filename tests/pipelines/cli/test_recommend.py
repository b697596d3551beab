"""`stepcast recommend` of a global batch: mixes that srift proposes, prices, what cannot be."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from shutil import copytree

import polars as pl
import pytest

from tests.made_run import made_run
from tests.pipelines.ran import Stepcast
from warehouse.landing import land
from warehouse.warehouse import Warehouse, read_only

NOW = datetime(2026, 11, 26, tzinfo=UTC)
FAST, SLOW = "emu.avx512.c15", "emu.avx512.s15"
PRICES = [
    # (node type, region, zone, market, price, day of November 2026)
    (FAST, "east", "east-a", "spot", 1.0, 1),
    (FAST, "east", "east-b", "spot", 0.8, 2),
    (SLOW, "east", "east-a", "spot", 0.3, 3),
    (FAST, "west", "west-a", "spot", 0.1, 3),
]
ASKED = {
    "--systems": "srift",
    "--dnn": "small_cnn",
    "--framework": "pytorch",
    "--image-size": "32",
    "--global-batch": "16",
    "--samples": "16000",
    "--as-of": "2026-11-26",
}
BOTH = ("--capacity", f"{FAST}=1", "--capacity", f"{SLOW}=1")
"""A node holds 12 of the 16 samples: two of them have to train together."""
MIX = f"1 {FAST}@8 + 1 {SLOW}@8"


@pytest.fixture
def home(small_history: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a copy of the history that a test may change."""
    copy = Path(copytree(small_history, tmp_path / "home"))
    monkeypatch.setenv("STEPCAST_HOME", str(copy))
    return copy


def land_prices(
    home: Path, name: str, seen_at: datetime, rows: Sequence[tuple[object, ...]]
) -> None:
    """Land prices that were collected at some time."""
    run = made_run(name, "prices", seen_at)
    names = ["node_type", "region", "zone", "market", "usd_per_hour", "day"]
    prices = pl.DataFrame(rows, names, orient="row").with_columns(
        observed_at=pl.datetime(2026, 11, pl.col("day"), time_zone="UTC"),
        provider=pl.lit("aws"),
        source=pl.lit("made up"),
    )
    land(home / "landing", run, None, {"price": prices.drop("day")})
    Warehouse(home).load()


def options(*more: str, **changes: str | None) -> list[str]:
    """Return the command with some options changed, None: left out."""
    arguments = ASKED | {f"--{name.replace('_', '-')}": value for name, value in changes.items()}
    given = [(name, value) for name, value in arguments.items() if value is not None]
    return ["recommend", *(word for pair in given for word in pair), *(more or BOTH)]


def written(home: Path) -> dict[str, object]:
    """Return the newest recommendation of the ledger."""
    rows = read_only(home, "FROM pred.recommendation ORDER BY sequence DESC LIMIT 1")
    return rows.to_dicts()[0]


def test_a_mix_that_srift_proposes_is_forecast_priced_and_kept(
    stepcast: Stepcast, home: Path
) -> None:
    ran = stepcast(*options(*BOTH, "--json"))
    assert ran.code == 0, ran.err
    answer = json.loads(ran.out)
    (candidate,) = answer["candidates"]
    assert candidate == answer["choice"]
    assert (candidate["nodes"], candidate["workers"]) == (MIX, 2)
    assert candidate["node_type"] == f"{FAST} + {SLOW}"
    assert candidate["usd_per_hour"] == pytest.approx(2 * 0.037)
    assert candidate["time_s"]["value"] == pytest.approx(candidate["train_s"] + 150)
    assert answer["front"] == [candidate["key"]]
    (step_s,) = read_only(
        home,
        "SELECT value FROM pred.ledger WHERE subject_id = $asked AND system = 'srift'",
        {"asked": candidate["scenario_id"]},
    )["value"]
    assert candidate["train_s"] == pytest.approx(1000 * step_s)
    row = written(home)
    assert (row["system"], row["recommendation_id"]) == ("srift", answer["recommendation_id"])
    assert json.loads(str(row["choice"]))["nodes"] == MIX
    assert MIX in stepcast(*options()).out


def test_without_a_global_batch_nothing_is_proposed(stepcast: Stepcast, home: Path) -> None:
    each = options(*BOTH, global_batch=None, batch_size="8")
    answer = stepcast(*each, "--json")
    assert answer.code == 0, answer.err
    labels = [candidate["nodes"] for candidate in json.loads(answer.out)["candidates"]]
    assert sorted(labels) == [f"1 {FAST}@8", f"1 {SLOW}@8"]


def test_nodes_of_one_cluster_are_in_one_region(stepcast: Stepcast, home: Path) -> None:
    """The west has no slow nodes; in the east the cheapest zone counts, as of the day."""
    land_prices(home, "prices", NOW - timedelta(days=20), PRICES)
    answer = stepcast(*options(market="spot"))
    assert answer.code == 0, answer.err
    assert f"{FAST} $0.8/h spot in east-b (made up, 2026-11-02)" in answer.out
    assert f"{SLOW} $0.3/h spot in east-a" in answer.out
    assert f"Rent {MIX} spot" in answer.out
    row = written(home)
    prices = read_only(home, "FROM pred.price_snapshot")
    assert row["price_snapshot"] in prices["price_snapshot"].to_list()
    land_prices(home, "later", NOW + timedelta(days=1), [(SLOW, "west", "w", "spot", 0.01, 3)])
    assert stepcast(*options(market="spot")).out == answer.out
    assert written(home) == row
    later = stepcast(*options(market="spot", as_of="2026-11-28")).out
    assert f"{SLOW} $0.01/h spot in w (made up, 2026-11-03)" in later


def test_limits_that_no_mix_keeps_say_what_to_raise(stepcast: Stepcast, home: Path) -> None:
    late = stepcast(*options(max_hours="0.01", minimize="time"))
    assert late.code == 0, late.err
    assert "No way to run it keeps the limits; raise --max-hours from 0.01 to" in late.out
    assert f"for {MIX}" in late.out
    assert written(home)["choice"] is None
    dear = stepcast(*options(max_usd_per_hour="0.001"))
    assert "raise --max-usd-per-hour from 0.001 to 0.074" in dear.out
    assert json.loads(str(written(home)["constraints"]))["max_usd_per_hour"] == 0.001


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (
            {"dnn": "vgg11", "image_size": "16"},
            "DNN 'vgg11' needs images of at least 32 pixels a side, found 16: raise image_size to",
        ),
        ({"link_mbps": "300"}, "no system forecasts small_cnn on any of these nodes (srift: no "),
        (
            {"global_batch": "4096"},
            f"no system forecasts small_cnn on any of these nodes (srift: {FAST}: a batch of 4096 ",
        ),
    ],
)
def test_bad_input_is_one_clear_line(
    stepcast: Stepcast, home: Path, changes: dict[str, str | None], said: str
) -> None:
    before = read_only(home, "FROM pred.recommendation").height
    answer = stepcast(*options(**changes))
    assert (answer.code, answer.out) == (2, "")
    assert answer.err.splitlines()[-1].startswith(f"stepcast: {said}")
    assert read_only(home, "FROM pred.recommendation").height == before


def test_without_a_warehouse(
    stepcast: Stepcast, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STEPCAST_HOME", str(tmp_path))
    answer = stepcast(*options())
    assert (answer.code, answer.out) == (2, "")
    assert "no warehouse in" in answer.err
