"""What assets work with: rounds of studies, a warehouse, and somebody to tell about progress."""

from assets.fleet_resource import FleetResource
from assets.progress import LoggedProgress
from assets.resources import RoundsResource, WarehouseResource
from studies.progress import Progress
from warehouse.home import home


def resources(backend: str | None = None, progress: Progress | None = None) -> dict[str, object]:
    """Return the resources of runs in the home that STEPCAST_HOME names."""
    warehouse = WarehouseResource(home=str(home()))
    return {
        "fleet": FleetResource(warehouse=warehouse),
        "rounds": RoundsResource(backend=backend, warehouse=warehouse),
        "warehouse": warehouse,
        "progress": progress or LoggedProgress(),
    }
