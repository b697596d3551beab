"""Every command that prints a table, at 80 and 120 columns, and in a pipe."""

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from shutil import copytree
from typing import Any

import pytest
from rich.cells import cell_len

from pipelines.cli import tables
from scripts.reference_pages import commands
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
    "history": ("small_cnn", "--most", "3"),
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
    "sql": ("SELECT * FROM report.accuracy LIMIT 3",),
}
"""Commands that print a table of the small history, and what they are asked."""
RESULTS = ("run", "reproduce", "sweep", "bench")
"""Commands that measure, rebuild or forecast for long, then print tables of a home."""
LINES: dict[str, tuple[str, ...]] = {
    "load": (),
    "networks": (),
    "warehouse check": (),
}
"""Commands that print lines, some of them long."""
WITHOUT_TABLES = {
    *LINES,
    *(
        "export",
        "fleet add",
    ),
    *("fleet pause", "fleet remove", "fleet resume", "fleet run", "import"),
    *("papers", "prices collect", "profile", "reap", "report", "seal"),
    "serve",
    *("train", "ui", "warehouse backup", "warehouse compact", "warehouse migrate"),
}
Table = tuple[Sequence[tables.TableColumn], Sequence[Sequence[str]]]


@pytest.fixture(scope="module")
def home(small_history: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Return a copy of the small history, which these commands may write to."""
    copy = Path(copytree(small_history, tmp_path_factory.mktemp("widths") / "home"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("STEPCAST_HOME", str(copy))
        patch.setenv("DAGSTER_HOME", "/nowhere")
        assert stepcast("fleet", "add", "emu.native.c15", "--backend", "loopback").code == 0
        yield copy


@pytest.fixture
def printed(monkeypatch: pytest.MonkeyPatch) -> list[Table]:
    """Return what tables are made of from here on, on a terminal of 80 columns."""
    seen: list[Table] = []
    made = tables.table_lines

    def table_lines(columns: Any, rows: Any, width: int) -> Iterable[str]:
        seen.append((columns, rows))
        return made(columns, rows, width)

    monkeypatch.setattr(tables, "table_lines", table_lines)
    monkeypatch.setenv("COLUMNS", "80")
    return seen


def plain(line: str) -> str:
    """Return a line without its colours."""
    return re.sub(r"\x1b\[[0-9;]*m", "", line)


def words_of(lines: Iterable[str]) -> set[str]:
    return {word for line in lines for word in plain(line).split()}


def check_lines(text: str, width: int) -> None:
    """Fail at a line that could be narrower: what has no blank is never broken."""
    for line in text.splitlines():
        assert cell_len(plain(line)) <= width or len(line.split()) <= 2, line


def check_table(table: Table, lines: Sequence[str], width: int) -> None:
    """Fail at a line that is too wide, a value that is cut, and a word that is broken."""
    columns, rows = table
    check_lines("\n".join(lines), width)
    value_words = words_of(value for row in rows for value in row)
    titles = [column.title for column in columns]
    names = words_of(titles) | words_of(f"{title}:" for title in titles)
    shown = {word for word in words_of(lines) if word.strip("─")}
    repeated = words_of(row[0] for row in rows)
    assert value_words - shown - repeated == set(), "nothing is cut"
    assert repeated <= shown
    assert shown - value_words - names == set(), "no word is broken"


def check(seen: Sequence[Table], out: str, err: str) -> None:
    """Check what was printed at 80 columns, and the tables of it at 120 and in a pipe."""
    assert seen, f"no table: {out}{err}"
    check_lines(out, 80)
    check_lines(err, 80)
    shown = words_of(out.splitlines())
    for columns, rows in list(seen):
        assert words_of(value for row in rows for value in row) <= shown
        for width in (80, 120, tables.PIPE_COLUMNS):
            check_table((columns, rows), list(tables.table_lines(columns, rows, width)), width)


def test_every_command_prints_tables_or_none() -> None:
    groups = [{*TABLES}, {*RESULTS}, WITHOUT_TABLES]
    names = [name for group in groups for name in group]
    assert sorted(names) == sorted(name.removeprefix("stepcast ") for name, _ in commands())


@pytest.mark.parametrize("name", TABLES)
def test_tables_fit(home: Path, printed: list[Table], name: str) -> None:
    answer = stepcast(*name.split(), *TABLES[name])
    # A machine may lack what doctor looks for.
    assert answer.code == 0 or name == "doctor", answer.err
    check(printed, answer.out, answer.err)


@pytest.mark.parametrize("name", LINES)
def test_lines_fit(home: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    whole = stepcast(*name.split(), *LINES[name])
    monkeypatch.setenv("COLUMNS", "80")
    answer = stepcast(*name.split(), *LINES[name])
    check_lines(answer.out, 80)
    assert words_of([whole.out, whole.err]) == words_of([answer.out, answer.err])
