"""`stepcast docs data`: every table and column, by the comments in the database."""

import pytest

from tests.pipelines.ran import Stepcast


@pytest.fixture(scope="module")
def text() -> str:
    from pipelines.cli.query import dictionary

    return dictionary()


def test_the_command_prints_the_dictionary(stepcast: Stepcast, text: str) -> None:
    assert stepcast("docs", "data").out == text


def test_every_column_of_what_probes_landed_is_explained(text: str) -> None:
    _, _, raw = text.partition("\n## raw\n")
    raw, _, _ = raw.partition("\n## fit\n")
    rows = [line for line in raw.splitlines() if line.startswith("* `")]
    assert len(rows) > 100
    assert not [row for row in rows if ": " not in row]


def test_views_and_tables_say_what_they_are(text: str) -> None:
    titles = [part.splitlines() for part in text.split("\n### ")[1:]]
    assert {"report.accuracy", "raw.run", "pred.ledger"} <= {lines[0] for lines in titles}
    assert not [lines[0] for lines in titles if len(lines) < 2 or not lines[1].strip()]


def test_lines_are_short(text: str) -> None:
    assert max(map(len, text.splitlines())) < 120
