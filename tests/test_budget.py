"""The house is as large as its budget says: `[tool.stepcast.budget]` of pyproject.toml.

`python -m tests.test_budget --write` writes what is there into pyproject.toml.
"""

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path

import pytest

from warehouse.home import CHECKOUT

PROJECT = CHECKOUT / "pyproject.toml"
TABLE = "[tool.stepcast.budget]"
WITHIN = 0.005
"""By which part what is there may be above or below the budget."""
_GENERATED = ("docs/cli.md", "docs/accuracy.md")


def tracked() -> dict[str, str]:
    """Return the text of Python and Markdown files that git tracks, by name; data are left out."""
    listed = subprocess.run(
        ["git", "ls-files", "*.py", "*.md"],
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    files = {name: CHECKOUT / name for name in listed if not name.startswith("data/")}
    return {name: file.read_text() for name, file in files.items() if file.exists()}


def code_lines(text: str) -> int:
    """Return how many lines hold code: no blank ones, comments and docstrings."""
    docs, long_texts = set[int](), set[int]()
    for node in ast.walk(ast.parse(text)):
        body = getattr(node, "body", None)
        for item in body if isinstance(body, list) else ():
            if isinstance(item, ast.Expr) and isinstance(item.value, ast.Constant):
                docs.update(lines_of(item) if isinstance(item.value.value, str) else ())
        if isinstance(node, ast.Constant | ast.JoinedStr):
            long_texts.update(lines_of(node) if node.lineno != node.end_lineno else ())
    stripped = enumerate(map(str.strip, text.splitlines()), start=1)
    plain = {number for number, line in stripped if line and not line.startswith("#")}
    return len((plain | long_texts) - docs)


def lines_of(node: ast.stmt | ast.expr) -> range:
    return range(node.lineno, (node.end_lineno or node.lineno) + 1)


def sizes(files: Mapping[str, str]) -> dict[str, int]:
    """Return what there is, by the names that the budget gives it."""
    lines = {name: code_lines(text) for name, text in files.items() if name.endswith(".py")}
    words = {name: len(text.split()) for name, text in files.items() if name.endswith(".md")}
    pages = {name for name in words if name.startswith("docs/") or name == "README.md"}
    commands = files.get("docs/cli.md", "")
    return {
        "code_lines": sum(n for name, n in lines.items() if not name.startswith("tests/")),
        "test_lines": sum(n for name, n in lines.items() if name.startswith("tests/")),
        "page_words": sum(words[name] for name in pages - {*_GENERATED}),
        "lab_words": sum(n for name, n in words.items() if name.startswith("lab/")),
        "commands": len(re.findall(r"^## stepcast", commands, re.MULTILINE)),
        "options": len(re.findall(r"^\* `--", commands, re.MULTILINE)),
    }


def budget() -> dict[str, int]:
    """Return what pyproject.toml says."""
    numbers: dict[str, int] = tomllib.loads(PROJECT.read_text())["tool"]["stepcast"]["budget"]
    return numbers


def with_budget(project: str, numbers: Mapping[str, int]) -> str:
    """Return the text of pyproject.toml with other numbers."""
    before, table, after = project.partition(f"{TABLE}\n")
    _, blank, rest = after.partition("\n\n")
    lines = "\n".join(f"{name} = {number:_}" for name, number in numbers.items())
    return f"{before}{table}{lines}{blank}{rest}"


@pytest.fixture(scope="module")
def there() -> dict[str, int]:
    return sizes(tracked())


@pytest.mark.parametrize("name", sizes({}))
def test_what_is_there_is_what_the_budget_says(name: str, there: dict[str, int]) -> None:
    expected, found = budget()[name], there[name]
    assert abs(found - expected) <= WITHIN * expected, (
        f"{name}: the budget is {expected:_} and {found:_} are there; if that is meant, "
        "`python -m tests.test_budget --write` writes it into pyproject.toml"
    )


def test_only_lines_of_code_count() -> None:
    text = '"""Of\na module."""\n\n# Why.\nx = (\n    1,  # one\n)\n\n\ndef f():\n    """Doc."""\n'
    assert code_lines(f'{text}    return """a\nb"""\n') == 6


def test_each_kind_of_file_counts_once() -> None:
    cli = "## stepcast run\n* `--to`: a file\n* `--json`: b\n## stepcast sql\n"
    files = {"a.py": "x = 1\n", "tests/b.py": "y = 2\nz = 3\n", "docs/cli.md": cli}
    files |= {"docs/c.md": "one two", "README.md": "three", "lab/d.md": "four", "CHANGELOG.md": "n"}
    assert list(sizes(files).values()) == [1, 2, 3, 1, 2, 2]


def test_numbers_are_written_where_they_stand() -> None:
    project = PROJECT.read_text()
    assert with_budget(project, budget()) == project
    fewer = with_budget(project, {**budget(), "commands": 1})
    assert tomllib.loads(fewer)["tool"]["stepcast"]["budget"]["commands"] == 1


if __name__ == "__main__":
    if sys.argv[1:] != ["--write"]:
        sys.exit("usage: python -m tests.test_budget --write")
    Path(PROJECT).write_text(with_budget(PROJECT.read_text(), sizes(tracked())))
