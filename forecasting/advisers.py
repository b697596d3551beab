"""The systems that recommend, by name: what each sees, and what makes its fits answer questions.

Everything else is the same for all of them (`forecasting.recommending`).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from models.ceer import advising as ceer_advising
from models.ceer.fitted import PROBES
from models.ceer.systems import CEER as CEER_SYSTEM
from models.ceer.systems import CEER_PYTORCH as CEER_PYTORCH_SYSTEM
from models.choosing.advice import Advising
from models.srift.advising import SriftAdvising
from models.srift.system import SRIFT as SRIFT_SYSTEM
from models.system import System
from warehouse.records import BadInput


@dataclass(frozen=True)
class Adviser:
    """A system that recommends.

    Attributes:
        system: that forecasts; a fit of it is one to all runs of `probes` that predictors see.
        framework: that trains.
        metric: what it forecasts of scenarios, by which its errors are shown.
        probes: whose profile runs it sees, all of one backend and host.
        of: makes a fit of the system one that can be asked.
    """

    system: System
    framework: Literal["tensorflow", "pytorch"]
    metric: str
    probes: tuple[str, ...]
    of: Callable[[Any], Advising]


SRIFT = Adviser(
    system=SRIFT_SYSTEM,
    framework="pytorch",
    metric="step_time_s",
    # torch_memory, where it was run, says which batches fit.
    probes=("links", "allreduce", "torch_memory", "torch_compute", "slowdown"),
    of=SriftAdvising,
)
CEER = Adviser(
    system=CEER_SYSTEM,
    framework="tensorflow",
    metric="step_time_s",
    probes=PROBES["tensorflow"],
    of=ceer_advising.advising,
)
CEER_PYTORCH = replace(
    CEER,
    system=CEER_PYTORCH_SYSTEM,
    framework="pytorch",
    probes=PROBES["pytorch"],
)
ADVISERS: Mapping[str, Adviser] = {one.system.name: one for one in (SRIFT, CEER, CEER_PYTORCH)}


def adviser(system: str) -> Adviser:
    """Return the adviser of a system.

    Raises:
        BadInput: there is none.
    """
    if system not in ADVISERS:
        raise BadInput(f"no system {system!r} recommends; those that do are {', '.join(ADVISERS)}")
    return ADVISERS[system]
