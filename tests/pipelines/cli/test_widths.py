"""Every command that prints a table, at 80 and 120 columns, and in a pipe."""

from collections.abc import Iterator
from pathlib import Path
from shutil import copytree

import pytest
from rich.cells import cell_len

from tests.pipelines.ran import stepcast
from warehouse.home import CHECKOUT

WORKLOAD = (
    *("--framework", "pytorch", "--image-size", "32", "--batch-size", "12"),
    *("--link-mbps", "200"),
)
TABLES: dict[str, tuple[str, ...]] = {
    "accuracy": (),
    "compare": ("type:emu.avx512.c15", "type:emu.avx512.s15"),
    "doctor": (),
    "fleet list": (),
    "fleet status": (),
    "history": ("small_cnn",),
    "node-types": (),
    "plan": (str(CHECKOUT / "studies" / "reference_async_mixed.yaml"),),
    "predict": (
        *("--dnn", "small_cnn", *WORKLOAD, "--workers", "2,4,8", "--worker", "emu.avx512.s15"),
        *("--systems", "srift,srift_paper,ideal_scaling", "--dataset-samples", "50000"),
    ),
    "prices show": (),
    "query": (),
    "recommend": (
        *("--dnn", "small_cnn", *WORKLOAD, "--samples", "1000000", "--max-hours", "60"),
        *("--capacity", "emu.avx512.s15=4", "--systems", "srift", "--as-of", "2026-11-26"),
    ),
    "support": ("resnet50", "bert", "mixtral"),
    "sql": ("SELECT * FROM report.accuracy ORDER BY ALL LIMIT 3",),
}
"""Commands that print a table of the small history, and what they are asked."""
LINES: dict[str, tuple[str, ...]] = {"load": (), "warehouse check": ()}
"""Commands that print lines, some of them long."""


@pytest.fixture(scope="module")
def home(small_history: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Return a copy of the small history, which these commands may write to."""
    copy = Path(copytree(small_history, tmp_path_factory.mktemp("widths") / "home"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("STEPCAST_HOME", str(copy))
        patch.setenv("DAGSTER_HOME", "/nowhere")
        assert stepcast("fleet", "add", "emu.native.c15", "--backend", "loopback").code == 0
        yield copy


def check_lines(text: str) -> None:
    """Fail at a line that could be narrower: what has no blank is never broken."""
    for line in text.splitlines():
        assert cell_len(line) <= 80 or len(line.split()) <= 2, line


def words_of(*texts: str) -> set[str]:
    return {word.rstrip(":") for text in texts for word in text.split() if word.strip("─")}


@pytest.mark.parametrize("name", [*TABLES, *LINES])
def test_what_is_printed_fits(home: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """At 80 columns nothing is too wide; and nothing is lost that stands in a wide table."""
    command = *name.split(), *{**TABLES, **LINES}[name]
    monkeypatch.setenv("COLUMNS", "80")
    narrow = stepcast(*command)
    # A machine may lack what doctor looks for.
    assert narrow.code == 0 or name == "doctor", narrow.err
    check_lines(narrow.out)
    check_lines(narrow.err)
    monkeypatch.setenv("COLUMNS", "1000")
    wide = words_of(stepcast(*command).out)
    if name not in ("doctor", "predict", "recommend"):  # which say what changes by the call
        assert words_of(narrow.out) >= wide
