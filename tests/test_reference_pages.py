"""Pages that are made from the commands' help and the catalogue are what these say now."""

from scripts import reference_pages
from warehouse.home import CHECKOUT

SCRIPT = CHECKOUT / "scripts" / "reference_pages.py"
AGAIN = f"run `.venv/bin/python {SCRIPT.relative_to(CHECKOUT)}` and look at the difference"


def test_the_page_of_commands_is_current() -> None:
    assert reference_pages.CLI.read_text() == reference_pages.cli_page(), AGAIN


def test_the_page_of_the_catalogue_is_current() -> None:
    text = reference_pages.catalogue_page()
    assert reference_pages.CATALOGUE.read_text() == text, AGAIN
    assert (
        "| `p5.48xlarge` | 8 H100 | NVSwitch | 3200 | yes | 192 | 2048 | h100 | 55.04 |\n" in text
    )


def test_lines_are_short() -> None:
    for text in (reference_pages.cli_page(), reference_pages.catalogue_page()):
        assert max(map(len, text.splitlines())) < 120
