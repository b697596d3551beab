"""A study, read: to run here, which is checked, or to look at what has run, here or elsewhere."""

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import cast, get_args

from forecasting.checks import check_forecasts
from forecasting.chosen import asking_of
from profilers.clusters import BackendChoice, choose_backend
from studies.needs import Asking
from studies.study import Study, read_study
from warehouse.records import Backend, BadInput


@dataclass(frozen=True)
class Ready:
    """A study, what its systems ask for, the backend it runs on, and why on that one."""

    study: Study
    asking: Asking
    backend: Backend
    why: str


@cache
def chosen_backend(wanted: str) -> tuple[Backend, str]:
    """Return the backend to use and why; tries this host out once per process.

    Raises:
        BadInput: there is no such choice.
    """
    choices: tuple[BackendChoice, ...] = get_args(BackendChoice)
    for choice in choices:
        if choice == wanted:
            return choose_backend(choice)
    raise BadInput(f"no backend {wanted!r}; the choices are {', '.join(choices)}")


def ready(path: Path, backend: str | None) -> Ready:
    """Return a study that can run here; `backend` overrules what its file says.

    Raises:
        BadInput: the study is wrong or cannot run here.
        MissingTool: a probe needs a program that this host lacks.
    """
    study = read_study(path)
    chosen, why = chosen_backend(backend or study.backend)
    check_forecasts(study, path, chosen)
    return Ready(study, asking_of(study), chosen, why)


def unchecked(path: Path, backend: str | None) -> Ready:
    """Return a study whose runs are looked at: this host may lack what they needed.

    Raises:
        BadInput: the study is wrong, or there is no such backend.
    """
    study = read_study(path)
    wanted = backend or study.backend
    if wanted in get_args(Backend):
        return Ready(study, asking_of(study), cast(Backend, wanted), "it is named")
    chosen, why = chosen_backend(wanted)
    return Ready(study, asking_of(study), chosen, why)
