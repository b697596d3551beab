"""The systems that recommend, by name."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from assets import ceer_adviser, srift_adviser, systems
from assets.advice import Adviser
from warehouse.records import BadInput

SRIFT = Adviser(
    system=systems.SRIFT.name,
    version=systems.SRIFT.version,
    framework="pytorch",
    metric="step_time_s",
    # Where it was run, the last one says which batches fit.
    probes=(*systems.SRIFT.probes, "torch_memory"),
    tables={name: systems.ARGUMENTS[name] for name in systems.SRIFT.tables},
    fit=srift_adviser.fit,
    load=srift_adviser.load,
)
CEER = Adviser(
    system=systems.CEER.name,
    version=systems.CEER.version,
    framework="tensorflow",
    metric="step_time_s",
    probes=systems.CEER.probes,
    tables={name: systems.ARGUMENTS[name] for name in systems.CEER.tables},
    fit=ceer_adviser.fit,
    load=ceer_adviser.load,
)
CEER_PYTORCH = replace(
    CEER,
    system=systems.CEER_PYTORCH.name,
    version=systems.CEER_PYTORCH.version,
    framework="pytorch",
    probes=systems.CEER_PYTORCH.probes,
    fit=partial(ceer_adviser.fit, "pytorch"),
    load=partial(ceer_adviser.load, framework="pytorch"),
)
ADVISERS: Mapping[str, Adviser] = {one.system: one for one in (SRIFT, CEER, CEER_PYTORCH)}


def adviser(system: str) -> Adviser:
    """Return the adviser of a system.

    Raises:
        BadInput: there is none.
    """
    if system not in ADVISERS:
        raise BadInput(f"no system {system!r} recommends; those that do are {', '.join(ADVISERS)}")
    return ADVISERS[system]
