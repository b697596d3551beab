"""The systems that recommend, by name."""

from collections.abc import Mapping

from assets import ceer_adviser, srift_adviser
from assets.advice import Adviser
from warehouse.records import BadInput

SRIFT = Adviser(
    system="srift",
    version="1",
    framework="pytorch",
    metric="step_time_s",
    probes=("torch_compute", "torch_memory", "slowdown", "allreduce", "links"),
    tables={
        "run": "runs",
        "scenario": "scenarios",
        "compute": "compute",
        "layer": "layers",
        "layer_time": "layer_times",
        "allreduce": "allreduce",
        "cluster_node": "clusters",
        "link": "links",
        "sample": "samples",
    },
    fit=srift_adviser.fit,
    load=srift_adviser.load,
)
CEER = Adviser(
    system="ceer",
    version="1",
    framework="tensorflow",
    metric="step_time_s",
    probes=("tf_operations", "tf_sync"),
    tables={
        "run": "runs",
        "scenario": "scenarios",
        "operation": "operations",
        "operation_shape": "shapes",
        "operation_time": "times",
        "sample": "samples",
        "dnn": "dnns",
    },
    fit=ceer_adviser.fit,
    load=ceer_adviser.load,
)
ADVISERS: Mapping[str, Adviser] = {one.system: one for one in (SRIFT, CEER)}


def adviser(system: str) -> Adviser:
    """Return the adviser of a system.

    Raises:
        BadInput: there is none.
    """
    if system not in ADVISERS:
        raise BadInput(f"no system {system!r} recommends; those that do are {', '.join(ADVISERS)}")
    return ADVISERS[system]
