"""The systems that recommend, by name."""

from collections.abc import Mapping
from dataclasses import replace

from forecasting import ceer_adviser
from forecasting.advice import Adviser
from forecasting.srift_adviser import SriftAdvising
from models.ceer.systems import CEER as CEER_SYSTEM
from models.ceer.systems import CEER_PYTORCH as CEER_PYTORCH_SYSTEM
from models.ceer.systems import PROBES
from models.srift.system import SRIFT as SRIFT_SYSTEM
from warehouse.records import BadInput

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
    of=ceer_adviser.advising,
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
