"""The page about GPUs is followed from nothing to prices."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.pipelines.ran import stepcast
from tests.test_docs import commands
from warehouse.home import CHECKOUT

PAGE = (CHECKOUT / "docs" / "gpus.md").read_text()


def firsts(lines: list[str]) -> list[str]:
    """Return the first word of each line of tables, with the binding resource behind its row."""
    rows = [line for line in lines if re.match(r"[gp]\w+\.", line)]
    return [f"{line.split()[0]} {line.split()[-1]}" for line in rows]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Yield the folder of all commands, with one home: its fit takes half a minute."""
    place = tmp_path_factory.mktemp("gpus")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        patch.setenv("COLUMNS", "80")
        patch.setenv("STEPCAST_HOME", str(place / "home"))
        yield place


def test_the_page_is_followed(folder: Path) -> None:
    """Figures are those of the day; what stands where they are is checked, and that they add up."""
    asked, measured = list(commands(PAGE))[:4], ""
    assert [name for (_, name, *_), _ in asked] == ["load", "node-types", "predict", "recommend"]
    for (_, *words), shown in asked:
        answer = stepcast(*words)
        lines = answer.printed.splitlines()
        if words[0] == "load":
            (measured,) = re.findall(r"loaded (\d+ runs)", answer.printed)
        if words[0] == "node-types":
            assert [line for line in lines if line][: len(shown)] == shown
        if words[0] == "recommend":
            assert answer.err == "", "it rests on the fit that the forecasts above made"
            assert all(len(line) <= 80 for line in lines)
            text = " ".join(answer.printed.split())
            assert re.search(
                r"\d+ of \d+ ways to run it have forecasts; none or too few have", text
            )
            roles = [line.split("  ")[0] for line in shown if line.startswith(("choice", "next"))]
            assert roles == ["choice", "next best"]
            assert set(roles) <= {line.split("  ")[0] for line in lines}
            assert "1 g6e.xlarge" in (folder / "front.svg").read_text()
        if words[0] != "predict":
            continue
        fitted_to = re.fullmatch(r"fit gpu_step to (\d+) runs\n", answer.err)
        assert fitted_to is not None
        assert int(fitted_to[1]) < int(measured.split()[0]), "lists of prices are no measurements"
        assert all(len(line) <= 80 for line in lines)
        assert firsts(lines) == firsts(shown)
        title = r"^own-[0-9a-f]{8} 128 words b64, bfloat16, adamw$"
        assert re.search(title, answer.printed, re.MULTILINE)
        titles = next(line for line in lines if line.startswith("node type"))
        assert titles.split() == "node type step 90 % in samples/s epoch $/epoch GiB binds".split()
        rests = [line for line in lines if line.startswith("  rests on ")]
        assert [line.startswith("  rests on public") for line in rests] == [True, *[False] * 3]
        errors = [line for line in lines if line.startswith("  past error ")]
        assert ["unseen networks" in line for line in errors] == [True, *[False] * 3]
        assert "Other systems have no forecast; --explain says why." in lines
        assert "ideal_scaling" not in answer.printed
        assert "Quota and availability are not checked." in answer.printed.replace("\n  ", " ")
