"""The fleet's page, drawn after what changes it."""

from pathlib import Path

from dagster import MetadataValue

from assets.resources import WarehouseResource
from fleet.page import collected
from reports import fleet_page
from studies.progress import Progress


def drawn_page(warehouse: WarehouseResource, progress: Progress) -> dict[str, MetadataValue]:
    """Write the fleet's page, and return where it is as metadata.

    What has been measured and judged has landed by then, so a page that cannot be drawn is a
    warning, and no failure.
    """
    home = Path(warehouse.home)
    try:
        path = fleet_page.write(collected(home), home / fleet_page.FILE)
    except Exception as error:
        progress.warn(f"the fleet's page was not drawn: {error}; `stepcast fleet page` draws it")
        return {}
    return {"page": MetadataValue.path(path)}
