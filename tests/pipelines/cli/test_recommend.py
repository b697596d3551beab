"""`stepcast recommend` of a global batch: mixes that srift proposes, prices, what cannot be."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import polars as pl
import pytest

from tests.made_run import made_run
from tests.pipelines.ran import Stepcast, words
from warehouse.landing import land
from warehouse.sql import read_only
from warehouse.warehouse import Warehouse

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
    return ["recommend", *words(ASKED, **changes), *(more or BOTH)]


def written(home: Path) -> dict[str, object]:
    """Return the newest recommendation of the ledger."""
    rows = read_only(home, "FROM pred.recommendation ORDER BY sequence DESC LIMIT 1")
    return rows.to_dicts()[0]


def test_a_mix_that_srift_proposes_is_forecast_priced_and_kept(
    stepcast: Stepcast, history: Path
) -> None:
    answer = stepcast(*options(*BOTH, "--json")).content
    (candidate,) = answer["candidates"]
    assert candidate == answer["choice"]
    assert (candidate["nodes"], candidate["workers"]) == (MIX, 2)
    assert candidate["node_type"] == f"{FAST} + {SLOW}"
    assert candidate["usd_per_hour"] == pytest.approx(2 * 0.037)
    assert candidate["time_s"]["value"] == pytest.approx(candidate["train_s"] + 150)
    assert answer["front"] == [candidate["key"]]
    (step_s,) = read_only(
        history,
        "SELECT value FROM pred.ledger WHERE subject_id = $asked AND system = 'srift'",
        {"asked": candidate["scenario_id"]},
    )["value"]
    assert candidate["train_s"] == pytest.approx(1000 * step_s)
    row = written(history)
    assert (row["system"], row["recommendation_id"]) == ("srift", answer["recommendation_id"])
    assert json.loads(str(row["choice"]))["nodes"] == MIX
    assert MIX in stepcast(*options()).out


def test_without_a_global_batch_nothing_is_proposed(stepcast: Stepcast, history: Path) -> None:
    each = options(*BOTH, global_batch=None, batch_size="8")
    answer = stepcast(*each, "--json")
    labels = [candidate["nodes"] for candidate in answer.content["candidates"]]
    assert sorted(labels) == [f"1 {FAST}@8", f"1 {SLOW}@8"]


def test_nodes_of_one_cluster_are_in_one_region(stepcast: Stepcast, history: Path) -> None:
    """The west has no slow nodes; in the east the cheapest zone counts, as of the day."""
    land_prices(history, "prices", NOW - timedelta(days=20), PRICES)
    answer = stepcast(*options(market="spot"))
    assert f"{FAST} $0.8/h spot in east-b (made up, 2026-11-02)" in answer.printed
    assert f"{SLOW} $0.3/h spot in east-a" in answer.printed
    assert f"Rent {MIX} spot" in answer.printed
    row = written(history)
    prices = read_only(history, "FROM pred.price_snapshot")
    assert row["price_snapshot"] in prices["price_snapshot"].to_list()
    land_prices(history, "later", NOW + timedelta(days=1), [(SLOW, "west", "w", "spot", 0.01, 3)])
    assert stepcast(*options(market="spot")).out == answer.printed
    assert written(history) == row
    later = stepcast(*options(market="spot", as_of="2026-11-28")).out
    assert f"{SLOW} $0.01/h spot in w (made up, 2026-11-03)" in later


def test_limits_that_no_mix_keeps_say_what_to_raise(stepcast: Stepcast, history: Path) -> None:
    late = stepcast(*options(max_hours="0.01", minimize="time"))
    assert "No way to run it keeps the limits; raise --max-hours from 0.01 to" in late.printed
    assert f"for {MIX}" in late.printed
    assert written(history)["choice"] is None
    dear = stepcast(*options(max_usd_per_hour="0.001"))
    assert "raise --max-usd-per-hour from 0.001 to 0.074" in dear.out
    assert json.loads(str(written(history)["constraints"]))["max_usd_per_hour"] == 0.001


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
    stepcast: Stepcast, history: Path, changes: dict[str, str | None], said: str
) -> None:
    before = read_only(history, "FROM pred.recommendation").height
    assert stepcast(*options(**changes)).refusal.startswith(f"stepcast: {said}")
    assert read_only(history, "FROM pred.recommendation").height == before
