"""docs/service.md lists each field of an answer, and each status."""

import re

from pipelines.service.app import WHY
from pipelines.service.contracts import Answer, Forecast
from warehouse.home import CHECKOUT

PAGE = (CHECKOUT / "docs" / "service.md").read_text()


def test_the_page_lists_every_field_and_status() -> None:
    rows = re.findall(r"^\| (`[a-z_`, ]+`) \|", PAGE, re.MULTILINE)
    fields = {name for row in rows for name in re.findall(r"`(\w+)`", row)}
    assert fields == Forecast.model_fields.keys()
    assert all(f"`{name}`" in PAGE for name in Answer.model_fields.keys() - {"forecasts"})
    assert {int(code) for code in re.findall(r"^\| (\d{3}) \|", PAGE, re.MULTILINE)} == WHY.keys()
