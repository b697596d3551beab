"""docs/predict.md is followed: its questions are asked, its figures come out."""

import re
import shlex
from pathlib import Path
from shutil import copytree

import pytest

from tests.pipelines.ran import Stepcast
from warehouse.home import CHECKOUT

PAGE = (CHECKOUT / "docs" / "predict.md").read_text()
_EXAMPLE = re.compile(r"^\$ stepcast (predict (?:.*\\\n)*.*)\n((?:(?!```).*\n)+)", re.MULTILINE)
_FIGURES = re.compile(r"(srift\w*|ideal_scaling)  +([\d.]+ s)  +(?:([\d.]+ to [\d.]+)|-) ")
TOLD = [
    (shlex.split(words.replace("\\\n", " ")), output) for words, output in _EXAMPLE.findall(PAGE)
]


@pytest.fixture
def history(small_history: Path, home: Path) -> Path:
    """Return this test's home with the last round of what the page asks about."""
    return Path(copytree(small_history, home, dirs_exist_ok=True))


def test_the_page_has_its_examples() -> None:
    assert len(TOLD) == 5
    assert sum("--calibrate" in words for words, _ in TOLD) == 1
    assert sum("far out" in output for _, output in TOLD) == 1


# The small history lacks one network of the page.
@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("words", "output"),
    [pair for pair in TOLD if "squeezenet" not in pair[0]],
    ids=lambda value: "asked" if isinstance(value, list) else "",
)
def test_questions_of_the_page_have_its_answers(
    stepcast: Stepcast, history: Path, words: list[str], output: str
) -> None:
    answer = stepcast(*words)
    assert answer.code == (0 if _FIGURES.search(output) else 2), answer.err
    assert _FIGURES.findall(answer.out) == _FIGURES.findall(output)
    # How long runs take is estimated anew whenever probes change.
    lines = [
        line.partition("; about ")[0]
        for line in output.splitlines()
        if re.match("[a-z_]+: |Nearest to ", line)
    ]
    assert lines
    assert [line for line in lines if line not in answer.out] == []
