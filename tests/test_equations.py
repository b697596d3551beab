"""Each row of the papers' tables, from equation to function, leads to a function that is there."""

import ast
import re
from pathlib import Path

import pytest

from warehouse.home import CHECKOUT

PAGES = ("async_sgd.md", "srift.md", "ceer.md", "predictddl.md")
_HEADER = "| paper | what | file: function |"
_PLACE = re.compile(r"`([\w/]+\.py)`:\s+`([\w.]+)`")


def rows(page: str) -> list[str]:
    """Return the rows of a page's table of equations."""
    _, _, after = (CHECKOUT / "docs" / page).read_text().partition(f"{_HEADER}\n|---|---|---|\n")
    table, _, _ = after.partition("\n\n")
    return table.splitlines()


def is_defined(path: Path, name: str) -> bool:
    """Tell whether a file defines a function or class, `Class.method` included; imports nothing."""
    body = ast.parse(path.read_text()).body if path.is_file() else []
    for part in name.split("."):
        kinds = (ast.FunctionDef, ast.ClassDef)
        definitions = [node for node in body if isinstance(node, kinds) and node.name == part]
        if not definitions:
            return False
        body = definitions[0].body
    return True


@pytest.mark.parametrize("page", PAGES)
def test_every_equation_leads_to_its_function(page: str) -> None:
    table = rows(page)
    assert len(table) > 15
    places = [_PLACE.search(row) for row in table]
    assert not [row for row, place in zip(table, places, strict=True) if place is None]
    lost = [place[0] for place in places if place and not is_defined(CHECKOUT / place[1], place[2])]
    assert not lost
