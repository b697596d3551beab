"""What assets work with: a study, a warehouse, and somebody to tell about progress."""

from pathlib import Path

from assets.progress import LoggedProgress
from assets.resources import StudyResource, WarehouseResource
from studies.progress import Progress
from warehouse.home import CHECKOUT, home

DEMO = CHECKOUT / "studies" / "demo.yaml"


def resources(
    study: Path = DEMO, backend: str | None = None, progress: Progress | None = None
) -> dict[str, object]:
    """Return the resources of a run of a study in the home that STEPCAST_HOME names."""
    warehouse = WarehouseResource(home=str(home()))
    return {
        "study": StudyResource(path=str(study), backend=backend, warehouse=warehouse),
        "warehouse": warehouse,
        "progress": progress or LoggedProgress(),
    }
