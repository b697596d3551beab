"""What is known of a job's network on the nodes on offer: from the history, or from a file."""

from pathlib import Path

from pydantic import ValidationError

from models.srift.fitted import FittedNetwork
from models.srift.performance import Performance
from models.srift.predictor import Srift
from models.srift.probed import Network
from pipelines.runtime.job_file import TrainingJob
from profilers.clusters import host_id
from warehouse.records import Backend, BadInput
from warehouse.warehouse import read_only

_FITS = Path(__file__).with_name("fits.sql")


def read_performance(job: TrainingJob, backend: Backend, home: Path) -> Performance:
    """Return the job's profile; without one, the newest fit of this backend and host that has it.

    Raises:
        BadInput: there is none, or it lacks a node type.
    """
    if job.profile is None:
        return _of_history(job, backend, home)
    performance = _of_file(job.profile)
    for one in job.offers:
        performance.node(one.node_type)
    return performance


def _of_file(path: Path) -> Performance:
    try:
        return FittedNetwork.model_validate_json(path.read_text()).performance
    except OSError as error:
        raise BadInput(
            f"profile {path}: {error.strerror}; expected the JSON of a "
            "models.srift.fitted.FittedNetwork"
        ) from error
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"])) or "the file"
        raise BadInput(f"profile {path}: {place}: {first['msg']}") from None


def _of_history(job: TrainingJob, backend: Backend, home: Path) -> Performance:
    fits = read_only(home, _FITS.read_text()).filter(backend=backend, host_id=host_id(backend))
    types = [one.node_type for one in job.offers]
    refused: BadInput | None = None
    for text in fits["parameters"]:
        model = Srift.from_json(text)
        try:
            found = model.performance(Network(job.dnn, job.image_size), job.link_mbps)
            model.check_profiled(found, types, job.link_mbps)
        except BadInput as error:
            refused = refused or error
        else:
            return found
    raise refused or BadInput(
        f"job {job.name} names no profile, and srift has not been fitted on {backend} nodes of "
        "this host yet: list its network and node types in a study of srift, and `stepcast run` it"
    )
