"""Pages that are made from the commands' help and the catalogue are what these say now."""

import importlib.util
from types import ModuleType

import pytest

from warehouse.home import CHECKOUT

SCRIPT = CHECKOUT / "scripts" / "reference_pages.py"
AGAIN = f"run `.venv/bin/python {SCRIPT.relative_to(CHECKOUT)}` and look at the difference"


def script(name: str) -> ModuleType:
    """Return a program of scripts/ as a module."""
    spec = importlib.util.spec_from_file_location(name, CHECKOUT / f"scripts/{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def pages() -> ModuleType:
    return script("reference_pages")


def test_the_page_of_commands_is_current(pages: ModuleType) -> None:
    assert pages.CLI.read_text() == pages.cli_page(), AGAIN


def test_the_page_of_the_catalogue_is_current(pages: ModuleType) -> None:
    text = pages.catalogue_page()
    assert pages.CATALOGUE.read_text() == text, AGAIN
    assert (
        "| `p5.48xlarge` | 8 H100 | NVSwitch | 3200 | yes | 192 | 2048 | h100 | 55.04 |\n" in text
    )


def test_lines_are_short(pages: ModuleType) -> None:
    for text in (pages.cli_page(), pages.catalogue_page()):
        assert max(map(len, text.splitlines())) < 120
