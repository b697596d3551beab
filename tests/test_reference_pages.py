"""Pages that are made from the commands' help and the catalogue are what these say now."""

from scripts import reference_pages
from warehouse.home import CHECKOUT

SCRIPT = CHECKOUT / "scripts" / "reference_pages.py"
AGAIN = f"run `.venv/bin/python {SCRIPT.relative_to(CHECKOUT)}` and look at the difference"


def test_the_page_of_commands_is_current() -> None:
    assert reference_pages.CLI.read_text() == reference_pages.cli_page(), AGAIN
