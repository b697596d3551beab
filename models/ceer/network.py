"""What a prediction needs to know of a DNN."""

from dataclasses import dataclass

import polars as pl

from models.ceer.observed import OBSERVED, WORKS_ON, computing
from networks.operation_graph import GraphOperation, OperationGraph
from warehouse.records import BadInput

COLUMNS = ("type", "count", *WORKS_ON)


@dataclass(frozen=True)
class Network:
    """A DNN's training step on one device: parameters, and operations with what they work on.

    `operations` has columns type, count (how many a step has), inputs, outputs, attributes (JSON as
    in table operation_shape), input_bytes and output_bytes.

    Raises:
        BadInput: a column is missing, or a count, the batch or the parameters are not above 0.
    """

    dnn: str
    batch_size: int
    parameter_count: int
    operations: pl.DataFrame

    def __post_init__(self) -> None:
        missing = [name for name in COLUMNS if name not in self.operations.columns]
        if missing:
            raise BadInput(
                f"operations of {self.dnn}: expected columns {', '.join(COLUMNS)}, found no "
                f"{', '.join(missing)}; extract the graph again"
            )
        counts = self.operations["count"]
        if min(self.batch_size, self.parameter_count) < 1 or not (counts > 0).all():
            raise BadInput(
                f"network {self.dnn}: expected a batch, parameters and counts above 0, found batch "
                f"{self.batch_size}, {self.parameter_count} parameters and counts "
                f"{counts.sort().to_list()[:1]}; extract the graph again"
            )


def of_graph(graph: OperationGraph) -> Network:
    """Return the network whose graph was extracted; equal operations are counted together.

    Operations of which a shape could not be inferred keep NULL for what they work on.
    """
    rows = [(one.type, *_worked_on(one)) for one in graph.operations]
    schema = {"type": pl.String} | {name: OBSERVED[name] for name in WORKS_ON}
    frame = pl.DataFrame(rows, schema=schema, orient="row")
    counted = frame.group_by(frame.columns, maintain_order=True).agg(
        pl.len().cast(pl.Float64).alias("count")
    )
    return Network(graph.dnn, graph.batch_size, graph.parameter_count, counted.select(COLUMNS))


def _worked_on(operation: GraphOperation) -> tuple[str | int | None, ...]:
    if not operation.known:
        return (None, None, operation.attributes, None, None)
    return tuple(getattr(operation, name) for name in WORKS_ON)


def of_observed(rows: pl.DataFrame, dnn: str, batch_size: int, parameter_count: int) -> Network:
    """Return the network whose step was profiled, whatever its operations took.

    Args:
        rows: `models.ceer.observed.OBSERVED` of one step: one DNN, batch and node type.
        dnn: its name.
        batch_size: images per step and device.
        parameter_count: its trained parameters.
    """
    return Network(dnn, batch_size, parameter_count, computing(rows).select(COLUMNS))
