"""`stepcast bench`: benchmarks by name, their sizes, tables and pages."""

import json
from collections.abc import Mapping
from pathlib import Path

import polars as pl
import pytest

from benchmarks import gpu, gpu_figures, history
from benchmarks.contract import NAMES, Benchmark, Figure, Outcome, Say, read_benchmark, tabulated
from tests.pipelines.ran import Stepcast
from warehouse.home import CHECKOUT


def measure(sizes: Mapping[str, int], progress: Say) -> Outcome:
    progress(f"working on {sizes['runs']}")
    return tabulated(
        Figure("load a run", 12.3456, "ms", 1.2345, "a plain copy"),
        Figure("runs", sizes["runs"], ""),
        notes=("All of them.",),
    )


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    benchmark = Benchmark("What.", "Needs.", measure, {"runs": 6, "large": 0})
    monkeypatch.setattr(history, "BENCHMARK", benchmark)


def test_the_command_prints_a_table_or_json(stepcast: Stepcast, small: None) -> None:
    table = stepcast("bench", "history")
    assert (table.code, table.err) == (0, "working on 6\n")
    for text in ("load a run", "12.3", "ms", "1.23 x a plain copy", "All of them."):
        assert text in table.out
    assert "NULL" not in table.out
    given = stepcast("bench", "history", "--set", "runs=123456", "--set", "large=0", "--json")
    answer = json.loads(given.out)
    assert answer["figures"][1]["value"] == 123_000
    assert answer["notes"] == ["All of them."]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["nothing"], f"no benchmark 'nothing'; there are {', '.join(NAMES)}"),
        (["history", "--set", "rows=3"], "no size 'rows'; this benchmark has runs, large"),
        (["history", "--set", "runs=0"], "runs is 0; expected 1 or more"),
        (["history", "--set", "runs"], "--set runs: expected SIZE=NUMBER"),
        (["history", "--set", "runs=-2"], "--set runs=-2: expected SIZE=NUMBER"),
        (["history", "--page", "README.md"], "--page: history has no page; only gpu has"),
        (["gpu", "--page", "nowhere.md"], "--page: there is no page nowhere.md"),
    ],
)
def test_bad_input_is_one_line(
    stepcast: Stepcast, small: None, arguments: list[str], says: str
) -> None:
    assert says in stepcast("bench", *arguments).refusal


def test_each_benchmark_says_what_it_measures_and_needs(stepcast: Stepcast) -> None:
    answer = stepcast("bench")
    for name in NAMES:
        benchmark = read_benchmark(name)
        assert benchmark.what.endswith((".", ";")) and benchmark.needs.endswith(".")
        assert f"{name}: {benchmark.what} {benchmark.needs}" in answer.printed
    files = {file.stem for file in (CHECKOUT / "benchmarks").glob("*.py")}
    assert {*NAMES} <= files
    assert "--set factor=6" in answer.printed


def test_gpus_figures_go_into_the_page(
    stepcast: Stepcast, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    figures = pl.DataFrame([gpu_figures.Figure("steps", 7, 12.34, 10.0, 20.0, "15 %")])
    monkeypatch.setattr(gpu, "measure", lambda *_: Outcome(figures))
    page = tmp_path / "accuracy.md"
    page.write_text((CHECKOUT / "docs" / "accuracy.md").read_text())
    answer = stepcast("bench", "gpu", "--page", str(page))
    assert answer.code == 0, answer.err
    assert "| steps | 7 | 12.3 |" in page.read_text()
