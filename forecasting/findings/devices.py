"""How much shorter epochs are on several devices, and S (sections III-D and IV-C of Ceer)."""

from collections.abc import Mapping
from dataclasses import dataclass

import polars as pl

from forecasting.ceer_study import Measured
from models.ceer import overhead
from models.ceer.analysis import scaling

_SETUP = ("devices", "link_mbps")


@dataclass(frozen=True)
class Beside:
    """S: what a step of so many devices takes beside its operations (Fig. 7).

    Attributes:
        devices: how many.
        link_mbps: between them; None: not shaped, or there is one device.
        rows: node_type, parameter_count and overhead_s.
        lines: by node type, seconds without parameters, and of each.
        r_squared: of each line.
    """

    devices: int
    link_mbps: float | None
    rows: pl.DataFrame
    lines: Mapping[str, tuple[float, float]]
    r_squared: tuple[float | None, ...]


@dataclass(frozen=True)
class Devices:
    """Steps of DNNs that predictors saw, on several devices.

    Attributes:
        relative: by DNN, node_type, devices and relative_time of an epoch to that of one device
            (Fig. 6).
        beside: S of each number of devices and link.
    """

    relative: Mapping[str, pl.DataFrame]
    beside: tuple[Beside, ...]


def devices(measured: Measured) -> Devices | None:
    """Return how the steps of DNNs that predictors saw scale; None without any."""
    operations, steps = measured.fitted
    if steps.is_empty():
        return None
    several = scaling(steps).filter(pl.col("devices").max().over("dnn") > 1)
    relative = {str(dnn): one for (dnn,), one in several.group_by("dnn", maintain_order=True)}
    rows = overhead.overheads(steps, operations)
    setups = rows.sort(_SETUP).partition_by(_SETUP, maintain_order=True)
    return Devices(relative, tuple(_beside(one) for one in setups))


def _beside(rows: pl.DataFrame) -> Beside:
    fits = overhead.fit(rows, forms="paper", relative=False)
    count, link_mbps = rows.select(_SETUP).row(0)
    return Beside(
        devices=count,
        link_mbps=link_mbps,
        rows=rows,
        lines={one.node_type: (one.intercept_s, one.per_parameter_s) for one in fits},
        r_squared=tuple(one.r_squared for one in fits),
    )
