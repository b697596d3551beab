"""`stepcast recommend` among all GPUs that EC2 rents, on a part of the public measurements."""

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from math import exp
from pathlib import Path
from shutil import copytree
from typing import Any

import pytest

from models.gpu_step import scenario_steps
from profilers import clock
from tests.aws import DAY, Aws
from tests.models.gpu_step.public import made_up_steps
from tests.pipelines.cli.test_recommend import land_prices
from tests.pipelines.ran import Stepcast, words
from tests.pipelines.ran import stepcast as stepcast_of

ASKED = {
    "--dnn": "small_cnn",
    "--image-size": "32",
    "--batch-size": "64",
    "--precision": "fp16",
    "--optimizer": "adamw",
    "--epochs": "3",
    "--dataset-samples": "10000000",
    "--max-hours": "24",
    "--max-nodes": "2",
}
TYPES = 44
"""With a data sheet and a price in us-east-1; p5e has none."""


class Asked:
    """A home with a fit to public measurements, and the answer to `ASKED`, twice."""

    def __init__(self, home: Path, words: str, answer: dict[str, Any]) -> None:
        self.home, self.words, self.answer = home, words, answer


@pytest.fixture(scope="module")
def asked(public_history: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asked]:
    """Yield a home with public measurements, prices, a fit to them, and its first answer."""
    folder = tmp_path_factory.mktemp("gpus")
    home = Path(copytree(public_history, folder / "home"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scenario_steps, "gpu_steps", made_up_steps)
        patch.setenv("STEPCAST_HOME", str(home))
        patch.setenv("COLUMNS", "80")
        ran = stepcast_of(*options())
        yield Asked(home, ran.printed, answered(stepcast_of))


@pytest.fixture
def home(asked: Asked, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a copy of the history that a test may change."""
    copy = Path(copytree(asked.home, tmp_path / "home"))
    monkeypatch.setenv("STEPCAST_HOME", str(copy))
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(scenario_steps, "gpu_steps", made_up_steps)
    return copy


def options(*more: str, **changes: str | None) -> list[str]:
    """Return the command with some options changed, None: left out."""
    return ["recommend", *words(ASKED, **changes), *more]


def answered(stepcast: Stepcast, *more: str, **changes: str | None) -> dict[str, Any]:
    ran = stepcast(*options("--json", *more, **changes))
    answer: dict[str, Any] = ran.content
    return answer


def types_of_single(answer: dict[str, Any]) -> set[str]:
    return {
        candidate["node_type"]
        for candidate in answer["candidates"]
        if " single " in candidate["training"]
    }


def test_the_whole_catalogue_is_asked_and_the_answer_is_in_words(asked: Asked) -> None:
    assert all(len(line) <= 80 for line in asked.words.splitlines())
    out, known = " ".join(asked.words.split()), asked.answer["coverage"]
    # One GPU on one node is one way to train; of all others there are one node and two.
    assert known["asked"] == 2 * TYPES
    assert (known["is_judged"], known["is_of_fits"], known["has_evidence"]) == (False, True, True)
    assert f"{known['counted']} of {2 * TYPES} ways to run it have forecasts" in out
    assert "as wide as errors on public measurements that fits had not seen, after the fact." in out
    assert "Not on offer: p5e.48xlarge (no price in us-east-1)." in out
    assert "Spot prices of these: none was observed; `stepcast prices collect` asks AWS." in out
    prices = {price["node_type"]: price["usd_per_hour"] for price in asked.answer["prices"]}
    assert (len(prices), prices["p5.4xlarge"]) == (TYPES, 6.88)


def test_a_node_trains_on_all_of_its_gpus(stepcast: Stepcast, home: Path, asked: Asked) -> None:
    """One GPU of eight is no way to run it unless that is asked for: all eight are paid for."""
    single = types_of_single(asked.answer)
    assert {"g5.xlarge", "p5.4xlarge", "g4dn.16xlarge"} <= single
    assert not {"p5.48xlarge", "g5.12xlarge", "p3.8xlarge"} & single
    alone = answered(stepcast, "--devices-per-node", "1")
    assert {"p5.48xlarge", "g5.12xlarge", "p3.8xlarge"} <= types_of_single(alone)
    nodes = [candidate["nodes"] for candidate in alone["candidates"]]
    assert len(nodes) == len(set(nodes)), "the only replica is the device by itself"


def test_more_gpus_than_a_node_has_are_one_line(stepcast: Stepcast, home: Path) -> None:
    """Of several node types the others are answered."""
    words = ["--dnn", "small_cnn", "--framework", "pytorch", "--image-size", "32", "--batch-size"]
    words += ["8", "--workers", "1", "--devices-per-node", "8", "--worker"]
    refused = stepcast("predict", *words, "g5.12xlarge")
    assert refused.refusal == "stepcast: devices_per_node: 8 of each node, but g5.12xlarge has 4"
    both = stepcast("predict", *words, "g5.12xlarge,g5.48xlarge")
    assert both.code == 0 and "g5.48xlarge" in both.out


def test_choice_and_alternatives_follow_from_the_candidates(
    stepcast: Stepcast, home: Path, asked: Asked
) -> None:
    answer = asked.answer
    kept = [candidate for candidate in answer["candidates"] if candidate["keeps_limits"]]
    assert answer["choice"] == min(kept, key=lambda candidate: candidate["cost_usd"]["value"])
    least_s = min(candidate["time_s"]["value"] for candidate in kept)
    # Half of 150 seconds of launching to twice as many: who is faster by less is no faster.
    alike = [candidate for candidate in kept if candidate["time_s"]["value"] <= least_s + 150]
    fastest = min(alike, key=lambda candidate: candidate["cost_usd"]["value"])
    assert {fastest["key"], answer["choice"]["key"]} <= {*answer["front"]}
    hurried = answered(stepcast, minimize="time")
    assert hurried["choice"]["time_s"] == fastest["time_s"]
    # Logarithms of ratios are normal: an interval is as far below as above.
    choice = answer["choice"]
    assert "left out of its fit" in choice["past_errors"]
    low, high = (choice["time_s"][name] / choice["time_s"]["value"] for name in ("low", "high"))
    assert low * high == pytest.approx(1, abs=0.05)


def test_a_step_of_far_more_samples_than_were_asked_for_is_named(
    stepcast: Stepcast, home: Path
) -> None:
    answer = answered(stepcast, minimize="time")
    steps = {candidate["nodes"]: candidate["step_samples"] for candidate in answer["candidates"]}
    assert (steps["2 p5.48xlarge@64"], steps["1 g5.xlarge@64"]) == (1024, 64)
    told = " ".join(stepcast(*options(minimize="time")).out.split())
    assert "a step has 1,024 samples, 16 times the batch asked for" in told
    few = stepcast(*options("--capacity", "g5.xlarge=2", minimize="time", max_nodes=None))
    assert few.code == 0 and "a step has" not in few.out


def test_what_lacks_memory_is_refused_with_what_it_needs(stepcast: Stepcast, home: Path) -> None:
    """Ten tensors of 1.5 GB each in float16 beside parameters: a T4 has 14.6 GiB."""
    answer = answered(stepcast, batch_size="12000")
    crowded = {row["node_type"]: row for row in answer["out_of_memory"]}
    assert {"g4dn.xlarge", "p3.2xlarge"} <= crowded.keys()
    t4 = crowded["g4dn.xlarge"]
    assert t4["needed_bytes"] > 0.95 * t4["memory_bytes"]
    assert not crowded.keys() & {candidate["node_type"] for candidate in answer["candidates"]}
    told = " ".join(stepcast(*options(batch_size="12000")).out.split())
    same = [row for row in answer["out_of_memory"] if row["device"] == t4["device"]]
    ends = [f"{pick(row['needed_bytes'] for row in same) / 2**30:.1f}" for pick in (min, max)]
    needs = f"{' to '.join(dict.fromkeys(ends))} of {t4['memory_bytes'] / 2**30:.1f} GiB"
    largest = max(row["largest_batch_size"] for row in same)
    assert "No room for a batch of 12000 on t4 (g4dn.xlarge; g4dn.2xlarge; g4dn.4xl" in told
    assert f"needs {needs}; a batch of about {largest} does." in told
    nowhere = stepcast(*options(batch_size="900000"))
    refusal = nowhere.refusal
    assert "small_cnn has no room on any of these nodes: it needs" in refusal


def test_spot_nodes_are_on_offer_where_their_prices_were_observed(
    stepcast: Stepcast, home: Path
) -> None:
    """What a paper printed in 2020 of p3.8xlarge is no price of today's."""
    seen = datetime(2026, 11, 20, tzinfo=UTC)
    rows = [("g5.xlarge", "us-east-1", "us-east-1a", "spot", 0.4, 19)]
    rows += [("g5.xlarge", "us-east-1", "us-east-1b", "spot", 0.5, 19)]
    land_prices(home, "spot", seen, rows)
    answer = answered(stepcast, "--as-of", "2026-11-29")
    spot = [offer for offer in answer["candidates"] if offer["market"] == "spot"]
    assert {(offer["node_type"], offer["usd_per_hour"] / offer["workers"]) for offer in spot} == {
        ("g5.xlarge", 0.4)
    }
    alone = answered(stepcast, "--market", "spot", "--as-of", "2026-11-29")
    assert {candidate["node_type"] for candidate in alone["candidates"]} == {"g5.xlarge"}
    assert alone["left_out"]["g5.2xlarge"] == "no price in us-east-1"
    before = stepcast(*options("--market", "spot", "--as-of", "2026-11-10"))
    refusal = before.refusal
    assert refusal.startswith("stepcast: no spot price of a node type with GPUs had been observed")


def test_spot_nodes_whose_prices_were_collected_may_be_lost(
    stepcast: Stepcast, home: Path, aws: Aws, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clock, "now", lambda: DAY + timedelta(hours=7))
    command = ("prices", "collect", "--region", "us-east-1", "--type", "p3.2xlarge")
    assert stepcast(*command).code == 0
    given = ("--market", "spot", "--as-of", "2026-11-29")
    answer = answered(stepcast, *given)
    assert {candidate["node_type"] for candidate in answer["candidates"]} == {"p3.2xlarge"}
    told = " ".join(stepcast(*options(*given)).out.split())
    (lost,) = re.findall(r"The choice loses a node with a probability of (\S+) %\.", told)
    choice = answer["choice"]
    rate = answer["preemptions_per_node_hour"]
    hours = choice["workers"] * choice["time_s"]["value"] / 3600
    assert float(lost) == pytest.approx(100 * (1 - exp(-rate * hours)), rel=0.1)


def test_a_deadline_that_none_keeps_says_what_to_raise_and_what_is_nearest(
    stepcast: Stepcast, home: Path
) -> None:
    answer = answered(stepcast, max_hours="0.06")
    assert answer["choice"] is None
    (relaxed,) = answer["relaxations"]
    assert relaxed.startswith("raise --max-hours from 0.06 to ")
    least = min(candidate["late_at_most"] for candidate in answer["candidates"])
    nearest = answer["alternatives"][0]
    assert nearest["late_at_most"] == least < 1
    fastest_s = min(candidate["time_s"]["value"] for candidate in answer["candidates"])
    assert nearest["time_s"]["value"] == pytest.approx(fastest_s, rel=0.01)


def test_nodes_that_are_named_are_the_only_ones(stepcast: Stepcast, home: Path) -> None:
    named = answered(stepcast, "--capacity", "g5.2xlarge=1", max_nodes=None)
    assert {candidate["nodes"] for candidate in named["candidates"]} == {"1 g5.2xlarge@64"}
    assert (named["left_out"], "all_gpus" in named["question"]) == ({}, False)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"framework": "tensorflow"}, "--framework tensorflow: of GPUs only PyTorch is known;"),
        ({"server": "emu.server"}, "--server: of GPUs only PyTorch is known; say with --capacity"),
        ({"capacity": "g5.xlarge=2"}, "--max-nodes: --capacity says how many nodes there are;"),
        ({"max_nodes": "20000"}, "expected at most 10,000 nodes of a type to rent, found 20,000"),
        ({"as_of": "2025-01-01"}, "no price of a node type with GPUs had been observed by 2025-"),
    ],
)
def test_bad_input_is_one_clear_line(
    stepcast: Stepcast, home: Path, changes: dict[str, str | None], said: str
) -> None:
    answer = stepcast(*options(**changes))
    assert answer.refusal.startswith(f"stepcast: {said}")
    assert answer.refusal.count("stepcast: ") == 1
