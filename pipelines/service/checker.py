"""The Task Checker: is there an embedder for a workload's type of dataset? If not, one is trained.

Training is a run of Dagster's, beside this process, so lineage shows it and it survives the service.
A dataset that only has more images is of a known type.

Source: Assogba et al., PredictDDL, sections III-D and III-G.
"""

import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from threading import Lock

from forecasting import embedders
from models.predictddl.datasets import IN_FOLDERS, SHIPPED
from pipelines.service.contracts import Retraining, Workload
from warehouse.records import BadInput

_TOLD_BYTES = 2000


class Checker:
    """Which types of datasets are known, and what is being trained.

    Args:
        folder: has a folder for each type of dataset that cannot be downloaded, by its name.
        minutes: that training takes.
    """

    def __init__(self, folder: Path | None, minutes: float) -> None:
        self._folder, self._minutes = folder, minutes
        self._lock = Lock()
        self._training: dict[str, subprocess.Popen[str]] = {}
        self._told: dict[str, str] = {}

    def is_known(self, dataset: str) -> bool:
        """Tell whether forecasts for a type of dataset can be made now."""
        return dataset in embedders.known()

    def unknown(self, workloads: Iterable[Workload]) -> list[str]:
        """Return the types of datasets that are new, each once."""
        names = dict.fromkeys(one.dataset.type for one in workloads)
        return [name for name in names if not self.is_known(name)]

    def retrain(self, dataset: str) -> Retraining:
        """Begin to train an embedder for a type, if nobody has; return how far it is.

        Raises:
            BadInput: nobody has such images here.
        """
        self._check_there(dataset)
        with self._lock:
            if dataset not in self._training or self._status(dataset) == "failed":
                command = [sys.executable, "-m", "pipelines.service.retraining", dataset]
                command += [str(self._minutes), *([str(self._source(dataset))] if self._folder else [])]
                self._training[dataset] = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.PIPE,
                    text=True,
                    errors="replace",
                )
                self._told.pop(dataset, None)
        return self.retraining(dataset)

    def retraining(self, dataset: str) -> Retraining:
        """Return how far the training for a type of dataset is.

        Raises:
            BadInput: none was begun.
        """
        with self._lock:
            if dataset not in self._training:
                if self.is_known(dataset):
                    return Retraining(dataset=dataset, status="done")
                raise BadInput(f"nobody trains an embedder for datasets of type {dataset!r}")
            status = self._status(dataset)
            return Retraining(dataset=dataset, status=status, told=self._told.get(dataset, ""))

    def close(self) -> None:
        """End what is being trained; it goes on where it was, when it is begun again."""
        with self._lock:
            for process in self._training.values():
                process.terminate()
            for process in self._training.values():
                process.communicate()

    def _status(self, dataset: str) -> str:
        process = self._training[dataset]
        code = process.poll()
        if code is None:
            return "running"
        if dataset not in self._told:
            _, errors = process.communicate()
            self._told[dataset] = errors.strip()[-_TOLD_BYTES:] if code else ""
        return "failed" if code else "done"

    def _check_there(self, dataset: str) -> None:
        if dataset in SHIPPED:
            return
        source = self._source(dataset)
        if dataset not in IN_FOLDERS or source is None or not source.is_dir():
            known = ", ".join((*SHIPPED, *IN_FOLDERS))
            raise BadInput(
                f"no embedder for datasets of type {dataset!r}, and no images to train one: types "
                f"are {known}; start the service with --datasets FOLDER that has those that are "
                "not shipped"
            )

    def _source(self, dataset: str) -> Path | None:
        return None if self._folder is None else self._folder / dataset
