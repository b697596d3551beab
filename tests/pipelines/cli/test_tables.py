"""Tables in terminals of 80 and 120 columns, and in pipes."""

import os
import pty
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

from pipelines.cli.tables import PIPE_COLUMNS, print_table, print_text, table_lines

LABEL = "resnet18 64px b8, 500 Mb/s, all-reduce, W=4 (4 emu.avx512.s15)"
TITLES = ("scenario", "system", "forecast", "past error", "reason")
ROWS = [
    dict(zip(TITLES, row, strict=True))
    for row in (
        (LABEL, "predictddl", "1.234 s", "7.6 %, n = 44", ""),
        (LABEL, "log_linear", "only an interval", "never judged", "none"),
        ("small", "linear", "1 s", "1 %, n = 3", "no torch_compute of this network on it"),
    )
]
TABLE = (
    "from pipelines.cli.tables import print_rows; from tests.pipelines.cli.test_tables import *; "
    "print_rows(ROWS, ['forecast'], has_headings=True)"
)


def lines(width: int) -> list[str]:
    """Return the table as it is at a width."""
    return list(table_lines(ROWS, width, ["forecast"], has_headings=True))


def test_values_go_on_below_where_they_are_wider_than_their_column() -> None:
    assert lines(80) == [
        "system              forecast  past error     reason",
        "────────────────────────────────────────────────────────────────────────────────",
        LABEL,
        "predictddl           1.234 s  7.6 %, n = 44",
        "log_linear  only an interval  never judged   none",
        "small",
        "linear                   1 s  1 %, n = 3     no torch_compute of this network on",
        "                                             it",
    ]


def test_a_row_that_does_not_fit_is_a_list() -> None:
    assert lines(40)[:4] == [
        LABEL[:39].rstrip(),
        "  " + LABEL[39:].strip(),
        "system: predictddl",
        "  forecast: 1.234 s",
    ]


def test_lines_stand_under_their_rows() -> None:
    rows = [{"a": "x", "b": "1"}, {"a": "y", "b": "10"}]
    shown = list(table_lines(rows, 20, ["b"], under=[["one"], ["two words"]]))
    assert shown == ["a   b", "─────", "x   1", "  one", "y  10", "  two words"]


@given(
    rows=st.lists(st.lists(st.text(max_size=30), min_size=6, max_size=6), max_size=5),
    heading=st.booleans(),
    width=st.integers(20, 200),
)
def test_no_word_is_cut_and_no_line_is_too_wide(
    rows: list[list[str]], heading: bool, width: int
) -> None:
    printable = [["".join(filter(str.isprintable, value)).strip() for value in row] for row in rows]
    shown_rows = [{f"c{place}": value for place, value in enumerate(row)} for row in printable]
    table = list(table_lines(shown_rows, width, has_headings=heading))
    # What has no blank is never broken.
    assert all(cell_len(line) <= max(width, 70) for line in table)
    shown = " ".join(table)
    repeated = {row[0] for row in printable} if heading else set()
    words = {word for row in printable for value in row[heading:] for word in value.split()}
    assert all(word in shown for word in words | {w for text in repeated for w in text.split()})


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
    assert list(table_lines([{"a": "x\n\x1b[2Jy"}], 80))[-1] == r"x\n\x1b[2Jy"


def test_wide_letters_take_two_columns() -> None:
    rows = [{"a": "日本", "b": "1"}, {"a": "abcd", "b": "2"}]
    assert list(table_lines(rows, 80))[2:] == ["日本  1", "abcd  2"]


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


def test_a_terminal_and_columns_of_the_environment_decide() -> None:
    without = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    assert on_terminal(80, without) == ["", *lines(80), ""]
    assert on_terminal(80, {**without, "COLUMNS": "120"}) == ["", *lines(120), ""]
    piped = subprocess.run(
        [sys.executable, "-c", TABLE], env=without, capture_output=True, text=True, check=True
    )
    assert piped.stdout.splitlines() == ["", *lines(PIPE_COLUMNS), ""]
