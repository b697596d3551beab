"""Days that are drawn from made-up probes: what must be found, and what must not."""

from pathlib import Path

import polars as pl
import pytest
from typer.testing import CliRunner

from benchmarks.drift import outcome, replaying
from benchmarks.drift.__main__ import app
from benchmarks.drift.injecting import Injection
from benchmarks.drift.landed import Probed, probed
from benchmarks.drift.replaying import Replayed, chosen, crossed, halves, replay
from fleet.drift import Thresholds
from tests.benchmarks.drift.landings import collected
from warehouse.records import BadInput

ORDER = [
    one
    for _ in range(4)
    for one in (None, None, Injection("links", 0.3), None, Injection("cpu_share", 0.01))
]
"""Links that are much slower, processors by less than matters."""


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Try two thresholds, in shorter histories."""
    monkeypatch.setattr(replaying, "Z", (4.0, 1000.0))
    monkeypatch.setattr(replaying, "DAYS", 24)
    monkeypatch.setattr(replaying, "BURN_IN_DAYS", 8)


@pytest.fixture
def probes(tmp_path: Path) -> tuple[Probed, ...]:
    """Return probes that scatter by half a percent."""
    return probed(collected(tmp_path / "landing", ORDER, noise=0.005))


def test_what_is_much_slower_is_found_at_once_and_nothing_else(
    few: None, probes: tuple[Probed, ...], tmp_path: Path
) -> None:
    replayed = replay(probes, Thresholds(), seeds=3, where=tmp_path)
    found = replayed.found.filter(what="links", z=4.0)
    assert found.select("probes", "days").unique().rows() == [(2, 1)]
    assert found.height == 2 * 3
    assert replayed.found.filter(what="cpu_share")["probes"].null_count() == 2 * 2 * 3
    assert replayed.found.filter(z=1000.0)["probes"].null_count() == 2 * 2 * 3
    assert replayed.quiet.select(pl.col("alarms", "confirmed").sum()).row(0) == (0, 0)
    assert replayed.quiet["days"].to_list() == [16] * (2 * 2 * 3)


def test_halves_share_no_probe(probes: tuple[Probed, ...], tmp_path: Path) -> None:
    first, second = ({one.run_id for one in half} for half in halves(probes, tmp_path))
    assert not first & second
    assert first | second == {one.run_id for one in probes}


def test_too_few_probes_are_named(probes: tuple[Probed, ...], tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"4 or more of each, found 1 \(links slower by 30%\)"):
        halves([probes[0]] * 9 + [probes[2]], tmp_path)
    with pytest.raises(BadInput, match=r"found 0 \(quiet\)"):
        halves([probes[2]] * 9, tmp_path)


def scored(*rows: tuple[int, float, int | None, int]) -> Replayed:
    """Return replays: half, z, probes until something was found, confirmed false alarms."""
    found = [(half, z, 0, "links", 0.1, probes, 1) for half, z, probes, _ in rows]
    quiet = [(half, z, 0, 100, false, false) for half, z, _, false in rows]
    columns = ["half", "z", "seed", "what", "by", "probes", "days"]
    calm = ["half", "z", "seed", "days", "alarms", "confirmed"]
    return Replayed(
        pl.DataFrame(found, columns, orient="row"), pl.DataFrame(quiet, calm, orient="row")
    )


def test_a_half_recommends_what_finds_most_with_few_false_ones() -> None:
    some = scored((0, 3.0, 2, 2), (0, 4.0, 2, 1), (0, 5.0, 2, 0), (0, 6.0, 4, 0), (0, 8.0, None, 0))
    assert chosen(_with(some, (2.5, 3.5)), 0) == 5.0


def test_where_all_are_false_the_highest_is_left() -> None:
    every = scored(*((0, z, 2, 9) for z in replaying.Z))
    assert chosen(every, 0) == max(replaying.Z)


def test_each_half_is_judged_with_the_threshold_of_the_other() -> None:
    both = scored((0, 4.0, 2, 0), (0, 5.0, 4, 0), (1, 4.0, 6, 0), (1, 5.0, 8, 0))
    judged = crossed(both, (4.0, 5.0))
    assert judged.found.select("half", "z", "probes").rows() == [(0, 5.0, 4), (1, 4.0, 6)]


def _with(some: Replayed, others: tuple[float, ...]) -> Replayed:
    more = scored(*((0, z, 2, 9) for z in others))
    return Replayed(pl.concat([some.found, more.found]), pl.concat([some.quiet, more.quiet]))


def test_hits_misses_and_effects_are_counted(probes: tuple[Probed, ...]) -> None:
    rows = [(2, 1), (3, 2), (2, 1), (None, None)]
    found = pl.DataFrame(
        [(0, 4.0, seed, "links", 0.3, *row) for seed, row in enumerate(rows)],
        ["half", "z", "seed", "what", "by", "probes", "days"],
        orient="row",
    )
    (row,) = outcome.hits(Replayed(found, pl.DataFrame()), probes).iter_rows(named=True)
    assert (row["found_in_two"], row["missed"]) == (0.5, 0.25)
    assert row["mean_probes"] == pytest.approx(7 / 3)
    assert (row["landed"], row["low"] < 0.5 < row["high"]) == (4, True)
    assert row["fell_by"] == pytest.approx(0.3, abs=0.01)
    assert row["steps_longer_by"] == pytest.approx(0, abs=0.02)


def test_false_alarms_are_of_100_quiet_days() -> None:
    some = scored((0, 4.0, 2, 3), (1, 4.0, 2, 0))
    table = outcome.false_alarms(some, landed=20)
    assert table.select("what", "per_100_days", "days").rows() == [
        ("alarms", 1.5, 200),
        ("confirmed", 1.5, 200),
    ]


def test_the_command_says_draws_and_keeps_it(few: None, tmp_path: Path) -> None:
    landing = collected(tmp_path / "landing", ORDER, noise=0.005)
    out = tmp_path / "out"
    ran = CliRunner().invoke(app, ["replay", str(landing), "--out", str(out), "--seeds", "2"])
    assert ran.exit_code == 0, ran.output
    assert "slower by 10% or more: 100.0% found within two probes, n = 4" in ran.output
    assert "links −30% (fell by 30." in ran.output
    assert "100.0% found within two probes" in ran.output
    assert "false confirmed: 0.00 per 100 quiet days" in ran.output
    assert "</svg>" in (out / "drift.svg").read_text()
    assert pl.read_csv(out / "drift_trade_off.csv").height == 2 * 2
    assert pl.read_csv(out / "drift_found.csv")["what"].to_list() == ["cpu_share", "links"]


def test_an_empty_folder_is_one_line(tmp_path: Path) -> None:
    ran = CliRunner().invoke(app, ["replay", str(tmp_path)])
    assert isinstance(ran.exception, BadInput)
    assert "expected probes `watch` of one node type, found none" in str(ran.exception)
