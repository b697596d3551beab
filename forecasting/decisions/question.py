"""A job that is to be trained somewhere: what is asked of all systems at once."""

from typing import Literal

from pydantic import Field

from models.choosing.deciding import Aim
from models.choosing.limits import Limits
from models.choosing.objectives import Objective
from models.choosing.overheads import Overheads
from warehouse.records import BadInput, Record


class Question(Record):
    """A job with its limits, and how sure they have to be; None: no such limit, or what is known.

    Attributes:
        dnn: the network.
        samples: how many are trained, all epochs together.
        framework: None: either.
        image_size: pixels, 0: it takes no images; None: the size at which it was profiled.
        global_batch: samples of a synchronous step of all devices together.
        batch_size: samples of a step of each device, however many there are.
        devices_per_node: of each worker.
        server: the node type of parameter servers; None: no asynchronous training.
        servers: how many there may be, from 1.
        minimize: time or cost.
        late: the largest probability of exceeding the deadline or the budget; None: forecasts count
            as they are.
        overheads: what comes to training.
        preemptions_per_node_hour: of spot nodes; None: as the history of prices says.
    """

    dnn: str
    samples: int = Field(ge=1)
    framework: Literal["tensorflow", "pytorch"] | None = None
    image_size: int | None = Field(default=None, ge=0)
    global_batch: int | None = Field(default=None, ge=1)
    batch_size: int | None = Field(default=None, ge=1)
    devices_per_node: int = Field(default=1, ge=1)
    server: str | None = None
    servers: int = Field(default=1, ge=1)
    link_mbps: float | None = Field(default=None, gt=0)
    minimize: Objective = "cost"
    max_hours: float | None = Field(default=None, gt=0)
    budget_usd: float | None = Field(default=None, gt=0)
    max_usd_per_hour: float | None = Field(default=None, gt=0)
    late: float | None = Field(default=0.1, gt=0, lt=1)
    overheads: Overheads = Overheads()
    preemptions_per_node_hour: float | None = Field(default=None, ge=0)

    @property
    def aim(self) -> Aim:
        """What is wanted, with limits in seconds and dollars."""
        limits = Limits(
            deadline_s=None if self.max_hours is None else 3600 * self.max_hours,
            budget_usd=self.budget_usd,
            usd_per_hour=self.max_usd_per_hour,
        )
        return Aim(self.minimize, limits, self.late)


def samples_of(
    samples: int | None,
    iterations: int | None,
    epochs: float | None,
    dataset_samples: int | None,
    *,
    per_step: int | None,
) -> int:
    """Return how many samples a job trains, whichever way it is told.

    Args:
        samples: as many.
        iterations: steps of `per_step` samples each.
        epochs: passes over `dataset_samples` samples.
        dataset_samples: of the data.
        per_step: samples of a step; None: that depends on how many nodes there are.

    Raises:
        BadInput: it is told in no way, or in several.
    """
    told = {"--samples": samples, "--iterations": iterations, "--epochs": epochs}
    given = [name for name, value in told.items() if value is not None]
    if len(given) != 1:
        found = " and ".join(given) or "none"
        raise BadInput(
            f"how long is the job? expected one of {', '.join(told)}, found {found}; --epochs goes "
            "with --dataset-samples"
        )
    if (dataset_samples is not None) != (epochs is not None):
        raise BadInput("--epochs and --dataset-samples go together; give both or neither")
    if samples is not None:
        return samples
    if iterations is not None:
        if per_step is None:
            raise BadInput(
                "--iterations: with --batch-size a step trains more samples on more nodes; give "
                "--global-batch, or the job in --samples"
            )
        return iterations * per_step
    assert epochs is not None and dataset_samples is not None
    return max(round(epochs * dataset_samples), 1)
