"""Tables in terminals of 80 and 120 columns, and in pipes."""

import os
import pty
import re
import struct
import subprocess
import sys
import termios
from fcntl import ioctl

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from pipelines.cli.tables import (
    PIPE_COLUMNS,
    TableColumn,
    print_rows,
    print_table,
    print_text,
    table_lines,
)

COLUMNS = [
    TableColumn("scenario", is_key=True, is_heading=True),
    TableColumn("system", is_key=True),
    TableColumn("forecast", is_key=True, is_number=True),
    TableColumn("$/h", is_number=True),
    TableColumn("past error", is_key=True),
    TableColumn("split"),
    TableColumn("reason"),
]
ROWS = [
    [
        "resnet18 64px b8, 500 Mb/s, all-reduce, W=4 (4 emu.avx512.s15)",
        "predictddl",
        "1.234 s",
        "0.148",
        "7.6 %, n = 44",
        "held out dnn",
        "",
    ],
    [
        "resnet18 64px b8, 500 Mb/s, all-reduce, W=4 (4 emu.avx512.s15)",
        "log_linear",
        "only an interval",
        "0.148",
        "never judged",
        "held out dnn",
        "none",
    ],
    ["small", "linear", "1 s", "10", "1 %, n = 3", "same", "no torch_compute of this"],
]
TABLE = "from tests.pipelines.cli.test_tables import *; print_rows(COLUMNS, ROWS)"


def lines(width: int) -> list[str]:
    """Return the table as it is at a width."""
    return list(table_lines(COLUMNS, ROWS, width))


def test_everything_is_beside_each_other_where_that_fits() -> None:
    table = lines(200)
    assert len(table) == 2 + len(ROWS)
    assert re.split("  +", table[0]) == [column.title for column in COLUMNS]
    assert re.split("  +", table[2]) == ROWS[0][:-1]
    assert table[3].startswith(" " * len(ROWS[0][0]) + "  log_linear"), "a heading stands once"
    assert re.split("  +", table[4]) == ROWS[2]


def test_what_does_not_fit_stands_under_its_row() -> None:
    assert lines(80) == [
        "scenario",
        "  system              forecast    $/h  past error     split",
        "  ────────────────────────────────────────────────────────────────",
        ROWS[0][0],
        "  predictddl           1.234 s  0.148  7.6 %, n = 44  held out dnn",
        "  log_linear  only an interval  0.148  never judged   held out dnn",
        "      reason: none",
        "small",
        "  linear                   1 s     10  1 %, n = 3     same",
        "      reason: no torch_compute of this",
    ]


@given(
    rows=st.lists(st.lists(st.text(max_size=30), min_size=6, max_size=6), max_size=5),
    keys=st.sets(st.integers(0, 5)),
    heading=st.booleans(),
    width=st.integers(20, 200),
)
def test_no_value_is_cut_and_no_line_is_too_wide(
    rows: list[list[str]], keys: set[int], heading: bool, width: int
) -> None:
    columns = [
        TableColumn(f"column {place}", is_key=place in keys, is_heading=heading and place == 0)
        for place in range(6)
    ]
    printable = [["".join(filter(str.isprintable, value)).strip() for value in row] for row in rows]
    table = list(table_lines(columns, printable, width))
    assert all(cell_len(line) <= max(width, len("          column 0: ") + 60) for line in table)
    narrow = [value for row in printable for value in row if cell_len(value) <= width - 19]
    assert all(any(value in line for line in table) for value in narrow)
    if heading:
        return
    for row in printable:
        assert any(line.startswith(row[0]) for line in table), "the first column is on the row"


def test_a_value_wider_than_the_line_breaks_between_words_only() -> None:
    words = " ".join(f"reference_grid/{number}" for number in range(12))
    path = "/" + 100 * "x"
    table = list(
        table_lines(
            [TableColumn("a"), TableColumn("b"), TableColumn("c")], [["1", words, path]], 80
        )
    )
    assert " ".join(" ".join(table[3:]).split()) == f"b: {words} c: {path}"
    assert all(len(line) <= 80 for line in table if path not in line)


def test_text_is_as_wide_as_columns_say_and_whole_in_a_pipe(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = "  about /a/path/of/letters/that/stays/whole and words\nshort"
    monkeypatch.delenv("COLUMNS", raising=False)
    print_text(text)
    assert capsys.readouterr().out == f"{text}\n"
    monkeypatch.setenv("COLUMNS", "20")
    print_text(text, err=True)
    assert capsys.readouterr().err.splitlines() == [
        "  about",
        "    /a/path/of/letters/that/stays/whole",
        "    and words",
        "short",
    ]


def test_letters_that_command_the_terminal_are_shown_instead() -> None:
    assert list(table_lines([TableColumn("a")], [["x\n\x1b[2Jy"]], 80))[-1] == r"x\n\x1b[2Jy"


def test_wide_letters_take_two_columns() -> None:
    table = list(
        table_lines([TableColumn("a"), TableColumn("b")], [["日本", "1"], ["abcd", "2"]], 80)
    )
    assert table[2:] == ["日本  1", "abcd  2"]


def test_a_frame_says_how_many_rows_it_has(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(pl.DataFrame({"name": ["a", None], "value": [1.23456789, 2.0], "of": [[1], []]}))
    assert capsys.readouterr().out.splitlines() == [
        "",
        "name    value  of",
        "──────────────────",
        "a     1.23457  [1]",
        "NULL        2  []",
        "",
        "2 rows",
    ]


def on_terminal(width: int, environment: dict[str, str]) -> list[str]:
    """Return what a program prints on a terminal of this width."""
    main, terminal = pty.openpty()
    ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, width, 0, 0))
    subprocess.run([sys.executable, "-c", TABLE], stdout=terminal, env=environment, check=True)
    os.close(terminal)
    shown = b""
    try:
        while part := os.read(main, 65536):
            shown += part
    except OSError:  # the other end is closed, as Linux says it
        pass
    os.close(main)
    return shown.decode().splitlines()


@pytest.mark.parametrize("width", [80, 120])
def test_a_terminal_and_columns_of_the_environment_decide(width: int) -> None:
    without = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    assert on_terminal(width, without) == ["", *lines(width), ""]
    wide = {**without, "COLUMNS": f"{width}"}
    piped = subprocess.run([sys.executable, "-c", TABLE], stdout=subprocess.PIPE, env=wide)
    assert piped.stdout.decode().splitlines() == ["", *lines(width), ""]


def test_a_pipe_is_as_wide_as_the_docs_say(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    monkeypatch.setattr(sys, "__stdout__", None)
    print_rows(COLUMNS, ROWS)
    assert capsys.readouterr().out.splitlines() == ["", *lines(PIPE_COLUMNS), ""]
