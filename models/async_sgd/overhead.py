"""What a receiver does with a tensor after its last packet, α·size + β, beside captured streams.

Source: Li et al., ICPE 2020, section 3.2.1 and Figure 10.
"""

from collections.abc import Mapping

import numpy as np
import polars as pl

from warehouse.records import BadInput, Record, Role

_LEAST_ROWS = 3


class Overhead(Record):
    """overhead_s = alpha_s_per_byte · size_bytes + beta_s of a node type in a receiving role."""

    node_type: str
    role: Role
    alpha_s_per_byte: float
    beta_s: float

    def seconds(self, size_bytes: float) -> float:
        """Return the overhead of a tensor, never below 0."""
        return max(self.alpha_s_per_byte * size_bytes + self.beta_s, 0.0)


def fit(measured: pl.DataFrame, node_types: Mapping[Role, str]) -> tuple[Overhead, ...]:
    """Fit the line of each receiving role by ordinary least squares.

    Args:
        measured: rows of `transfers`, of as many runs as there are on these node types.
        node_types: the type of the nodes in each role.

    Raises:
        BadInput: a role with too few transfers, or all of one size.
    """
    return tuple(
        _fit_role(measured.filter(role=role), role, name) for role, name in node_types.items()
    )


def _fit_role(rows: pl.DataFrame, role: Role, node_type: str) -> Overhead:
    if rows.height < _LEAST_ROWS or rows["size_bytes"].n_unique() < 2:
        raise BadInput(
            f"overhead of {node_type} as {role}: expected {_LEAST_ROWS} captured transfers or "
            f"more, of different sizes, found {rows.height} of "
            f"{rows['size_bytes'].n_unique()} sizes; profile with capture"
        )
    import statsmodels.api as sm  # takes seconds, and few studies capture packets

    sizes = rows["size_bytes"].to_numpy().astype(float)
    # In bytes the design matrix would be unbalanced.
    scale = float(np.max(sizes))
    beta, alpha = sm.OLS(rows["overhead_s"].to_numpy(), sm.add_constant(sizes / scale)).fit().params
    return Overhead(
        node_type=node_type, role=role, alpha_s_per_byte=float(alpha) / scale, beta_s=float(beta)
    )


# Captured streams beside the trace's records of the same transfers.


_RECEIVER = {"downlink": "worker", "uplink": "server"}


def captured_us(
    streams: pl.DataFrame | None, steps: pl.DataFrame
) -> dict[int, dict[int, tuple[int, int]]]:
    """Return, by traced step and operation, the first and last packet in us since the step's start.

    Streams that carried no tensor of a traced step are left out.
    """
    spans_us: dict[int, dict[int, tuple[int, int]]] = {}
    if streams is None:
        return spans_us
    for step, operation, first_us, last_us in _since_start(streams, steps).iter_rows():
        spans_us.setdefault(step, {})[operation] = first_us, last_us
    return spans_us


def transfers(
    streams: pl.DataFrame, operations: pl.DataFrame, timings: pl.DataFrame, steps: pl.DataFrame
) -> pl.DataFrame:
    """Return one row per captured transfer of one traced run.

    Returns:
        step, operation, direction, server, stream, role (receiver: worker or server), size_bytes
        (of the tensor), segments, in us since the step's start: start_us and end_us (recorded),
        first_us and last_us (captured), and overhead_s: from the last packet to the recorded end.
    """
    packets = _since_start(streams, steps).join(
        streams.select("step", "operation", "stream", "segments"), on=["step", "operation"]
    )
    recorded = timings.select(
        pl.col("step", "operation").cast(pl.Int32),
        "start_us",
        end_us=pl.col("start_us") + pl.col("duration_us"),
    )
    carried = operations.select(
        "operation", "size_bytes", pl.col("server").fill_null(0), direction="resource"
    )
    return (
        packets.join(recorded, on=["step", "operation"])
        .join(carried, on="operation")
        .with_columns(role=pl.col("direction").replace_strict(_RECEIVER))
        .select(
            *("step", "operation", "direction", "server", "stream", "role", "size_bytes"),
            *("segments", "start_us", "end_us", "first_us", "last_us"),
            overhead_s=(pl.col("end_us") - pl.col("last_us")) / 1e6,
        )
        .sort("step", "first_us", "stream")
    )


def _since_start(streams: pl.DataFrame, steps: pl.DataFrame) -> pl.DataFrame:
    """Return step, operation, first_us and last_us, times since the start of the traced step."""
    starts = steps.filter("traced").select(pl.col("step").cast(pl.Int32), step_us="start_us")
    return (
        streams.drop_nulls(["step", "operation"])
        .unique(["step", "operation"], keep="first", maintain_order=True)
        .join(starts, on="step")
        .select(
            "step",
            "operation",
            pl.col("first_us") - pl.col("step_us"),
            pl.col("last_us") - pl.col("step_us"),
        )
    )
