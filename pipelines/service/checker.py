"""The Task Checker: is there an embedder for a workload's type of dataset? If not, one is trained.

Training has a process of its own. It ends with the service and goes on where it was, when it is
begun again. A dataset that only has more images is of a known type.

Source: Assogba et al., PredictDDL, sections III-D and III-G.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import IO, Literal

from forecasting import embedders
from models.predictddl.datasets import SHIPPED
from pipelines.service.contracts import Retraining, Workload
from warehouse.child_process import bound
from warehouse.home import CHECKOUT
from warehouse.records import BadInput

_TOLD_BYTES = 2000
_ENDING_S = 20.0
"""How long a training may take to note that it was interrupted."""


@dataclass
class _Training:
    """A process that trains, and what it writes to stderr."""

    process: "subprocess.Popen[bytes]"
    errors: IO[bytes]

    @property
    def status(self) -> Literal["running", "done", "failed"]:
        code = self.process.poll()
        return "running" if code is None else "failed" if code else "done"

    @property
    def told(self) -> str:
        """The last line that it wrote; another descriptor's position is its own to move."""
        size = os.fstat(self.errors.fileno()).st_size
        tail = os.pread(self.errors.fileno(), _TOLD_BYTES, max(size - _TOLD_BYTES, 0))
        return (tail.decode(errors="replace").strip().splitlines() or [""])[-1]


class Checker:
    """Which types of datasets are known, and what is being trained.

    Args:
        folder: has TYPE.npz of each type of dataset that is not shipped.
        minutes: that training takes.
        program: what trains: it is given the type of dataset, minutes, and the folder if there is
            one; None: `pipelines.service.embedder_training`.
    """

    def __init__(
        self, folder: Path | None, minutes: float, program: Sequence[str] | None = None
    ) -> None:
        self._folder, self._minutes = folder, minutes
        self._program = program or (sys.executable, "-m", "pipelines.service.embedder_training")
        self._lock = Lock()
        self._trainings: dict[str, _Training] = {}
        # The kernel kills a bound process with the thread that made it, so that one has to stay.
        self._starter = ThreadPoolExecutor(1)

    def unknown(self, workloads: Iterable[Workload]) -> list[str]:
        """Return the types of datasets that are new, each once."""
        known = embedders.available_embedders()
        names = dict.fromkeys(workload.dataset.type for workload in workloads)
        return [name for name in names if name not in known]

    def retrain(self, dataset: str, *, again: bool = True) -> Retraining:
        """Begin to train an embedder for a new type, if nobody does; return how far it is.

        A type that is known is not trained for again, unless its last training failed.

        Args:
            dataset: the type.
            again: whether one whose training failed is trained for again.

        Raises:
            BadInput: nobody has such images here, or training failed before.
        """
        with self._lock:
            training = self._trainings.get(dataset)
            status = None if training is None else training.status
            if training is not None and status == "failed" and not again:
                raise BadInput(
                    f"training for datasets of type {dataset!r} failed ({training.told}); mend "
                    f"that, and POST /v1/retraining/{dataset}"
                )
            is_known = dataset in embedders.available_embedders()
            if status == "failed" or (status != "running" and not is_known):
                self._check_there(dataset)
                self._trainings[dataset] = self._starter.submit(self._started, dataset).result()
        return self.retraining(dataset)

    def retraining(self, dataset: str) -> Retraining:
        """Return how far the training for a type of dataset is.

        Raises:
            BadInput: none was begun.
        """
        with self._lock:
            training = self._trainings.get(dataset)
            if training is not None:
                return Retraining(dataset=dataset, status=training.status, told=training.told)
        if dataset in embedders.available_embedders():
            return Retraining(dataset=dataset, status="done")
        raise BadInput(f"nobody trains an embedder for datasets of type {dataset!r}")

    def close(self) -> None:
        """End what is being trained; it goes on where it was, when it is begun again."""
        with self._lock:
            trainings = list(self._trainings.values())
            for training in trainings:
                if training.process.poll() is None:
                    training.process.terminate()
            for training in trainings:
                try:
                    training.process.wait(_ENDING_S)
                except subprocess.TimeoutExpired:
                    training.process.kill()
                    training.process.wait()
        self._starter.shutdown()

    def _started(self, dataset: str) -> _Training:
        given = [
            dataset,
            str(self._minutes),
            *([] if self._folder is None else [str(self._folder)]),
        ]
        errors = tempfile.TemporaryFile()
        process = subprocess.Popen(
            bound([*self._program, *given]),
            env={**os.environ, "PYTHONPATH": str(CHECKOUT)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=errors,
            # Ctrl-C in a terminal is for the service, which ends what it has begun.
            start_new_session=True,
        )
        return _Training(process, errors)

    def _check_there(self, dataset: str) -> None:
        images = self._folder and self._folder / f"{dataset}.npz"
        if dataset not in SHIPPED and (images is None or not images.is_file()):
            raise BadInput(
                f"no embedder for datasets of type {dataset!r}, and no images to train one: start "
                f"the service with --datasets FOLDER that has {dataset}.npz (docs/service.md)"
            )
