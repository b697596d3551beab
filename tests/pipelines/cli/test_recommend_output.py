"""`stepcast recommend` of a batch of each device, on a few runs."""

import json
from pathlib import Path

import pytest

from tests.pipelines.cli.test_predict import change
from tests.pipelines.ran import Stepcast, words
from warehouse.sql import read_only

ASKED = {
    "--dnn": "small_cnn",
    "--framework": "tensorflow",
    "--image-size": "24",
    "--batch-size": "1",
    "--epochs": "2",
    "--dataset-samples": "500000",
    "--capacity": "emu.native.s25=3",
    "--server": "emu.server",
    "--link-mbps": "200",
    "--systems": "async_sgd,linear",
    "--max-hours": "60",
    "--as-of": "2026-11-26",
}


def options(**changes: str | None) -> list[str]:
    """Return the command with some options changed, None: left out."""
    return ["recommend", *words(ASKED, **changes)]


def test_one_answer_says_what_to_rent_how_surely_and_what_would_change_it(
    stepcast: Stepcast, history: Path
) -> None:
    answer = stepcast(*options())
    lines = answer.printed.splitlines()
    assert lines[0] == (
        "1,000,000 samples of small_cnn 24px, within 60 hours with a probability of 90 %: "
        "least cost"
    )
    assert lines[1] == (
        "3 of 3 ways to run it have forecasts; none or too few of their systems' forecasts have "
        "been judged on backend emulated: intervals and probabilities are guesses."
    )
    assert lines[2].startswith("Rent ")
    assert "P(late) " in answer.printed
    beside = "launch 2.5 min (half to twice that in nine of ten), loading 0 min, a checkpoint 10 s."
    assert f"Beside training: {beside}" in answer.printed
    rows = read_only(history, "FROM pred.recommendation WHERE system = 'recommend'").to_dicts()
    assert len(rows) == 1
    job, constraints = json.loads(rows[0]["job"]), json.loads(rows[0]["constraints"])
    assert (job["samples"], job["servers"]) == (1_000_000, 1)
    assert constraints["capacity"] == {"emu.native.s25": 3}
    assert f"Recommendation {rows[0]['recommendation_id']}" in answer.printed


def test_the_answer_for_programs(stepcast: Stepcast, history: Path, tmp_path: Path) -> None:
    answer = stepcast(*options(), "--json").content
    choice, question = answer["choice"], answer["question"]
    assert (question["samples"], question["link_mbps"]) == (1_000_000, 200)
    assert choice in answer["candidates"]
    assert choice["keeps_limits"]
    assert choice["late_at_most"] <= 0.1
    assert choice["time_s"]["low"] < choice["time_s"]["value"] < choice["time_s"]["high"]
    assert choice["cost_usd"]["value"] == pytest.approx(
        choice["usd_per_hour"] * choice["time_s"]["value"] / 3600
    )
    assert answer["coverage"] == {
        "asked": 3,
        "forecast": 3,
        "counted": 3,
        "is_judged": False,
        "has_evidence": True,
        "is_of_fits": False,
    }
    assert answer["front"][-1] == choice["key"]
    kept = read_only(history, "FROM pred.recommendation WHERE system = 'recommend'").to_dicts()
    assert [row["recommendation_id"] for row in kept] == [answer["recommendation_id"]]
    words = stepcast(*options())
    assert f"Rent {choice['nodes']}: " in words.out


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"batch_size": None}, "expected --global-batch (of all nodes together) or --batch-size"),
        (
            {"batch_size": None, "global_batch": "8"},
            "--server: asynchronous workers have batches of their own; --batch-size",
        ),
        ({"epochs": None}, "how long is the job? expected --samples, or --epochs with --dataset"),
        ({"capacity": "emu.native.s25"}, "--capacity: expected TYPE=COUNT, e.g. g4dn.8xlarge=16"),
        ({"dnn": "mine.py"}, "mine.py: expected a network (`stepcast support` lists them), or a"),
        ({"as_of": "2020-01-01"}, "nothing had been profiled by 2020-01-01"),
        ({"market": "spot"}, "no spot price of node type 'emu.native.s25' as of 2026-11-26 is kn"),
    ],
)
def test_bad_input_is_one_clear_line(
    stepcast: Stepcast, history: Path, changes: dict[str, str | None], said: str
) -> None:
    assert f"stepcast: {said}" in stepcast(*options(**changes)).refusal


def test_what_is_far_out_and_what_has_changed_is_said(stepcast: Stepcast, history: Path) -> None:
    change(history, "emu.native.s25")
    command = options(capacity="emu.native.s25=64", systems="linear")
    ran = stepcast(*command)
    assert "Stale: emu.native.s25 has changed since it was profiled" in ran.printed
    far = (
        "far out: 64 workers, where forecasts were judged from 1 to 4; first measure a scenario of "
        "8 workers; list it under test of a study: `stepcast run` judges it; "
    )
    assert f"linear: {far}`stepcast predict --far-out` shows the number (1 scenario)" in ran.printed
    answer = json.loads(stepcast(*command, "--json").out)
    assert max(candidate["workers"] for candidate in answer["candidates"]) == 8
    assert far in answer["refused"][-1]["reason"]
    assert [caution.split(":")[0] for caution in answer["cautions"]] == ["Stale"]
