"""The page about GPUs is followed from nothing to prices; fifteen questions are asked after it."""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.pipelines.ran import stepcast
from tests.test_docs import commands
from warehouse.home import CHECKOUT

PAGE = (CHECKOUT / "docs" / "gpus.md").read_text()
QUESTIONS = (CHECKOUT / "docs" / "questions.md").read_text()


def firsts(lines: list[str]) -> list[str]:
    """Return the first word of each line of tables, with the binding resource behind its row."""
    rows = [line for line in lines if re.match(r"[gp]\w+\.", line)]
    return [f"{line.split()[0]} {line.split()[-1]}" for line in rows]


def test_the_page_is_followed(
    home: Path, tmp_path: Path, quickly_traced: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Figures are those of the day; what stands where they are is checked."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    load, types, predict, recommend = list(commands(PAGE))[:4]
    loaded = re.search(r"loaded (\d+) runs", stepcast(*load[0][1:]).printed)
    (_, *words), shown = types
    assert [line for line in stepcast(*words).printed.splitlines() if line][: len(shown)] == shown

    (_, *words), shown = predict
    answer = stepcast(*words)
    lines = answer.printed.splitlines()
    fitted_to = re.fullmatch(r"fit gpu_step to (\d+) runs\n", answer.err)
    assert loaded and fitted_to
    assert int(fitted_to[1]) < int(loaded[1]), "lists of prices are no measurements"
    assert all(len(line) <= 80 for line in lines)
    assert firsts(lines) == firsts(shown)
    rests, errors = (
        [line for line in lines if line.startswith(f"  {words} ")]
        for words in ("rests on", "past error")
    )
    assert [line.startswith("  rests on public") for line in rests] == [True, *[False] * 3]
    assert ["unseen networks" in line for line in errors] == [True, *[False] * 3]

    (_, *words), shown = recommend
    answer = stepcast(*words)
    assert answer.err == "", "it rests on the fit that the forecasts above made"
    starts = [line.split("  ")[0] for line in answer.printed.splitlines()]
    assert {"choice", "next best"} <= {line.split("  ")[0] for line in shown} & {*starts}


@pytest.mark.exhaustive
def test_questions_have_the_answers_of_their_page(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert stepcast("load", str(CHECKOUT / "data" / "public")).code == 0
    for config, name in re.findall(r"echo '(\{.*?\})' > (\w+\.json)", QUESTIONS, re.DOTALL):
        (tmp_path / name).write_text(config)
    wrong = [title for title, holds in answered(QUESTIONS) if not holds]
    assert not wrong


Answers = Sequence[Mapping[str, Any]]


def answered(page: str) -> Iterator[tuple[str, bool]]:
    """Yield each question of the page, and whether its answer is still what the page says."""
    sections = re.split(r"^## ", page, flags=re.MULTILINE)[1:]
    assert len(sections) == len(CLAIMS) == 15
    for section, claim in zip(sections, CLAIMS, strict=True):
        answers: list[Mapping[str, Any]] = []
        for (_, *words), _ in commands(section):
            content = stepcast(*words, "--json").content
            answers += [content] if words[0] == "recommend" else content["forecasts"]
        yield section.partition("\n")[0], claim(answers)


def samples_per_s(forecast: Mapping[str, Any], each: int, gpus: int) -> float:
    """Return what GPUs train with so many samples of a step each."""
    return float(each * gpus / forecast["value"])


def nano_gpt(answers: Answers) -> bool:
    (step,) = answers
    return 0.4 < step["value"] < 0.6 and step["low"] < 0.56 < step["high"]


def second_machine(answers: Answers) -> bool:
    alone, both = answers
    slower = samples_per_s(both, 64, 16) < samples_per_s(alone, 64, 8)
    return slower and both["detail"]["binds"] == "exchange"


def slow_link(answers: Answers) -> bool:
    near, far = answers
    return samples_per_s(far, 64, 6) < samples_per_s(near, 64, 4) / 2


def loader(answers: Answers) -> bool:
    t4, a100 = answers
    are_bound = [answer["detail"]["binds"] for answer in answers] == ["loader", "loader"]
    return are_bound and a100["value"] == t4["value"] == 64 / 150


def launches(answers: Answers) -> bool:
    a100, h100, a100_large, h100_large = answers
    alike = (
        a100["value"] == pytest.approx(h100["value"], rel=0.01)
        and a100["detail"]["binds"] == "host"
    )
    free = a100["detail"]["free_batch_size"], h100["detail"]["free_batch_size"]
    return alike and 8 < free[0] < free[1] < 256 and h100_large["value"] < a100_large["value"] / 2


def four_and_eight(answers: Answers) -> bool:
    four, eight = answers
    return 1.7 < samples_per_s(eight, 12, 8) / samples_per_s(four, 12, 4) <= 2


def budget(answers: Answers) -> bool:
    (answer,) = answers
    nearest = answer["alternatives"][0]
    are_affordable = [measurement["usd"] < 4 for measurement in answer["measurements"]]
    return (
        answer["choice"] is None
        and "--budget-usd" in answer["relaxations"][0]
        and 0.5 < nearest["over_budget_at_most"] < 1
        and "n = " in nearest["past_errors"]
        and bool(are_affordable)
        and all(are_affordable)
    )


def room(answers: Answers) -> bool:
    replicas, sharded = answers
    return not replicas["detail"]["fits"] and bool(sharded["detail"]["fits"])


def half_precision(answers: Answers) -> bool:
    a100, a10g, a100_half, a10g_half = answers
    gains = a100["value"] / a100_half["value"], a10g["value"] / a10g_half["value"]
    return 5 < gains[0] < 6 and 1.2 < gains[1] < 1.5


def accumulation(answers: Answers) -> bool:
    one_pass, eight_passes = answers
    return 5 < 8 * one_pass["value"] / eight_passes["value"] < 8


def four_strategies(answers: Answers) -> bool:
    return [bool(each["detail"]["fits"]) for each in answers] == [False, False, True, True]


def seventy_billion(answers: Answers) -> bool:
    (answer,) = answers
    label = answer["choice"]["nodes"]
    return label.startswith("64 p5.48xlarge") and "tensor parallel" in label


def adapters(answers: Answers) -> bool:
    return all(each["detail"]["fits"] for each in answers)


def shards_or_stages(answers: Answers) -> bool:
    shards, stages = answers
    overlap = shards["low"] < stages["value"] < shards["high"]
    return overlap and shards["detail"]["binds"] == "exchange"


def three_days(answers: Answers) -> bool:
    (answer,) = answers
    return bool(answer["choice"]["nodes"].startswith("2 p5.48xlarge"))


CLAIMS = (
    nano_gpt,
    second_machine,
    slow_link,
    loader,
    launches,
    four_and_eight,
    budget,
    room,
    half_precision,
    accumulation,
    four_strategies,
    seventy_billion,
    adapters,
    shards_or_stages,
    three_days,
)
