"""The pages that are made from help and comments are what these say now."""

import importlib.util
from types import ModuleType

import pytest

from warehouse.home import CHECKOUT

SCRIPT = CHECKOUT / "scripts" / "reference_pages.py"
AGAIN = f"run `.venv/bin/python {SCRIPT.relative_to(CHECKOUT)}` and look at the difference"


@pytest.fixture(scope="module")
def pages() -> ModuleType:
    spec = importlib.util.spec_from_file_location("reference_pages", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_of_commands_is_current(pages: ModuleType) -> None:
    assert pages.CLI.read_text() == pages.cli_page(), AGAIN


def test_every_command_has_a_place_and_an_example_or_a_sentence(pages: ModuleType) -> None:
    text = pages.cli_page()
    names = [name for name, _ in pages.commands()]
    assert {"stepcast run", "stepcast predict", "stepcast warehouse check"} <= set(names)
    for name in names:
        _, _, after = text.partition(f"\n## {name}\n")
        assert after.strip()[:1].isupper(), name


def test_the_data_dictionary_is_current(pages: ModuleType) -> None:
    assert pages.DATA.read_text() == pages.data_page(), AGAIN


def test_the_data_dictionary_explains_every_column_of_what_probes_landed(
    pages: ModuleType,
) -> None:
    _, _, raw = pages.data_page().partition("\n## raw\n")
    raw, _, _ = raw.partition("\n## fit\n")
    rows = [line for line in raw.splitlines() if line.startswith("* `")]
    assert len(rows) > 100
    assert not [row for row in rows if ": " not in row]


def test_lines_are_short(pages: ModuleType) -> None:
    for text in (pages.cli_page(), pages.data_page()):
        assert max(map(len, text.splitlines())) < 120
