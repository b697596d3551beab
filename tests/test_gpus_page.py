"""The page about GPUs is followed from nothing to prices: its commands print what it shows."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.pipelines.ran import stepcast
from warehouse.home import CHECKOUT

PAGE = (CHECKOUT / "docs" / "gpus.md").read_text()
_BLOCK = re.compile(r"^```\n(\$ stepcast .*?)^```", re.DOTALL | re.MULTILINE)


def followed() -> Iterator[tuple[list[str], list[str]]]:
    """Yield each command of the page, and the lines that it shows."""
    for block in _BLOCK.findall(PAGE):
        command, *shown = block.removeprefix("$ ").replace("\\\n", " ").splitlines()
        yield shlex.split(command)[1:], shown


def firsts(lines: list[str]) -> list[str]:
    """Return the first word of each line of tables, with the binding resource behind its row."""
    rows = [line for line in lines if re.match(r"[gp]\w+\.", line)]
    return [f"{line.split()[0]} {line.split()[-1]}" for line in rows]


def test_the_page_is_followed(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Figures are those of the day; what stands where they are is checked, and that they add up."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    commands, measured = list(followed()), ""
    assert [words[0] for words, _ in commands] == ["load", "node-types", "predict", "recommend"]
    for words, shown in commands:
        given = [word.replace("data/public", str(CHECKOUT / "data" / "public")) for word in words]
        answer = stepcast(*given)
        assert answer.code == 0, answer.err
        lines = answer.out.splitlines()
        if words[0] == "load":
            (measured,) = re.findall(r"loaded (\d+ runs)", answer.out)
        if words[0] == "node-types":
            assert [line for line in lines if line][: len(shown)] == shown
        if words[0] == "recommend":
            assert answer.err == "", "it rests on the fit that the forecasts above made"
            assert all(len(line) <= 80 for line in lines)
            said = " ".join(answer.out.split())
            assert re.search(
                r"\d+ of \d+ ways to run it have forecasts; none or too few have", said
            )
            roles = [line.split("  ")[0] for line in shown if line.startswith(("choice", "fast"))]
            assert roles == ["choice", "fastest"]
            assert set(roles) <= {line.split("  ")[0] for line in lines}
            assert "1 g5.xlarge" in (tmp_path / "front.svg").read_text()
        if words[0] != "predict":
            continue
        runs = int(measured.split()[0]) - 1  # the list of prices is no measurement
        assert f"fit gpu_step to {runs} runs\n" in answer.err
        assert all(len(line) <= 80 for line in lines)
        assert firsts(lines) == firsts(shown)
        assert "own-34267cb4 128 words b64, bfloat16, adamw" in lines
        titles = next(line for line in lines if line.startswith("node type"))
        assert titles.split() == "node type step 90 % in samples/s epoch $/epoch GiB binds".split()
        rests = [line for line in lines if line.startswith("  rests on ")]
        assert [line.startswith("  rests on public") for line in rests] == [True, *[False] * 3]
        assert all(re.search(r"past error \d+ %, n = \d+$", line) for line in rests)
        assert "Other systems have no forecast; --explain says why." in lines
        assert "ideal_scaling" not in answer.out
        assert "Quota and availability are not checked." in answer.out.replace("\n  ", " ")
        again = stepcast(*given)
        assert again.code == 0, again.err
        assert [firsts(lines), again.err] == [firsts(again.out.splitlines()), ""]
