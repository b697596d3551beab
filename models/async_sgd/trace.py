"""From the frames of a traced single-worker run to the graph and the steps that are simulated."""

from collections.abc import Iterator
from dataclasses import dataclass

import polars as pl

from models.async_sgd.captured import captured_us
from models.async_sgd.graph import Graph, ProfiledStep, Resource
from models.async_sgd.parsing import with_parsed, with_parsing
from models.async_sgd.work import work_seconds
from warehouse.records import BadInput

_RESOURCES = {resource.name.lower(): resource for resource in Resource}


@dataclass(frozen=True)
class Profile:
    """A job as the simulator needs it.

    `requested` lists the transfers in the order in which, over all steps, they were ready.
    """

    graph: Graph
    steps: tuple[ProfiledStep, ...]
    requested: tuple[int, ...]


def read_profile(
    operations: pl.DataFrame,
    edges: pl.DataFrame,
    timings: pl.DataFrame,
    steps: pl.DataFrame,
    streams: pl.DataFrame | None = None,
    *,
    downlink_Bps: float,
    uplink_Bps: float,
    inter_op_threads: int = 1,
    cores: float = 1.0,
) -> Profile:
    """Turn the raw tables of one traced run (docs/architecture.md) into a graph and profiled steps.

    A transfer is recorded from the moment its tensor is ready until the receiver has parsed it. It
    becomes bytes on the link, and a computation at the receiver (its parsing) from the moment the
    link had sent it until its recorded end: as table `stream` says or, where that lacks it, as a
    model of the link at the given speeds says.

    An operation that no step times (TensorFlow leaves out `_Send`) counts as started, and ended,
    when the first operation that waits for it was started. A step in which the tracer lost the
    record of an operation is left out.

    Raises:
        BadInput: a table that contradicts itself or another, a cycle, more than half of the
            traced steps incomplete, or a speed of 0 or less.

    Source: Li et al., ICPE 2020, sections 2, 3.2.1 and 3.4.
    """
    graph, cut = cut_steps(
        *(operations, edges, timings, steps, streams),
        downlink_Bps=downlink_Bps,
        uplink_Bps=uplink_Bps,
    )
    profiled = []
    transfers = [i for i, resource in enumerate(graph.resources) if resource.is_link]
    requested_us = dict.fromkeys(transfers, 0)
    for intervals in cut.values():
        starts_us = [start_us for start_us, _ in intervals]
        order = tuple(sorted(range(len(starts_us)), key=starts_us.__getitem__))
        release_s = tuple(
            0.0 if waits else max(start_us, 0) / 1e6
            for waits, start_us in zip(graph.predecessors, starts_us, strict=True)
        )
        work_s = tuple(work_seconds(graph, intervals, cores, inter_op_threads == 1))
        profiled.append(ProfiledStep(work_s, order, release_s))
        for i in transfers:
            requested_us[i] += starts_us[i]
    return Profile(
        graph=graph,
        steps=tuple(profiled),
        requested=tuple(sorted(transfers, key=requested_us.__getitem__)),
    )


def cut_steps(
    operations: pl.DataFrame,
    edges: pl.DataFrame,
    timings: pl.DataFrame,
    steps: pl.DataFrame,
    streams: pl.DataFrame | None = None,
    *,
    downlink_Bps: float,
    uplink_Bps: float,
) -> tuple[Graph, dict[int, list[tuple[int, int]]]]:
    """Return the graph and, by whole traced step, (start_us, end_us) of each of its operations.

    Transfers and their parsing are apart, as in `read_profile`.

    Raises:
        BadInput: as `read_profile`.
    """
    if not (downlink_Bps > 0 and uplink_Bps > 0):
        raise BadInput(
            f"link speeds must be above 0, found {downlink_Bps} bytes/s down and {uplink_Bps} up; "
            "run the links probe again"
        )
    recorded = _recorded_graph(operations, edges)
    transfers = [i for i, resource in enumerate(recorded.resources) if resource.is_link]
    speed_Bps = {Resource.DOWNLINK: downlink_Bps, Resource.UPLINK: uplink_Bps}
    captured = captured_us(streams, steps)
    cut = {
        step: with_parsed(recorded, whole, transfers, speed_Bps, captured.get(step))
        for step, whole in _recorded_steps(recorded, timings, steps)
    }
    return with_parsing(recorded, transfers), cut


def _recorded_graph(operations: pl.DataFrame, edges: pl.DataFrame) -> Graph:
    rows = operations.sort("operation")
    count = rows.height
    if count == 0 or rows["operation"].to_list() != list(range(count)):
        raise BadInput(
            f"table operation: expected indices 0 to n - 1, each once, found {count} rows with "
            f"indices {rows['operation'].to_list()[:3]}...; profile again"
        )
    resources = []
    for name, resource, size in rows.select("name", "resource", "size_bytes").iter_rows():
        if resource not in _RESOURCES:
            raise BadInput(
                f"table operation: {name!r} uses resource {resource!r}; expected one of "
                f"{', '.join(_RESOURCES)}"
            )
        resources.append(_RESOURCES[resource])
        if (size is None and resources[-1].is_link) or (size or 0) < 0:
            raise BadInput(f"table operation: {name!r} has size_bytes {size}; expected 0 or more")
    successors: list[list[int]] = [[] for _ in range(count)]
    for source, target in edges.select("source", "target").unique().sort(pl.all()).iter_rows():
        if not 0 <= source < count:
            raise BadInput(
                f"table edge: {source} -> {target}: expected operations 0 to {count - 1}; "
                "profile again"
            )
        successors[source].append(target)
    return Graph(
        names=tuple(rows["name"]),
        resources=tuple(resources),
        servers=tuple(rows["server"].fill_null(0)),
        sizes_bytes=tuple(rows["size_bytes"].fill_null(0)),
        successors=tuple(map(tuple, successors)),
    )


def _recorded_steps(
    graph: Graph, timings: pl.DataFrame, steps: pl.DataFrame
) -> Iterator[tuple[int, list[tuple[int, int]]]]:
    """Yield each whole traced step and its (start_us, end_us) of every operation."""
    traced = steps.filter("traced")["step"].unique().sort().to_list()
    if not traced:
        raise BadInput("table step: expected traced steps, found none; profile again")
    _check_timings(graph, timings, traced)
    by_step = timings.sort("operation").partition_by("step", as_dict=True)
    timed = timings["operation"].unique().sort().to_list()
    whole = [step for step in traced if _operations_of(by_step, step) == timed]
    if not timed:
        raise BadInput(
            f"table timing: expected operations of {len(traced)} traced steps, found none; "
            "profile again"
        )
    if len(whole) * 2 < len(traced):
        raise BadInput(
            f"table timing: {len(traced) - len(whole)} of {len(traced)} traced steps lack some of "
            f"the {len(timed)} timed operations or time one twice; profile again"
        )
    for step in whole:
        columns = by_step[(step,)].select(
            "start_us", end_us=pl.col("start_us") + pl.col("duration_us")
        )
        yield step, _with_untimed(graph, dict(zip(timed, columns.iter_rows(), strict=True)))


def _operations_of(by_step: dict[tuple[object, ...], pl.DataFrame], step: int) -> list[int]:
    return by_step[(step,)]["operation"].to_list() if (step,) in by_step else []


def _check_timings(graph: Graph, timings: pl.DataFrame, traced: list[int]) -> None:
    last = len(graph.names) - 1
    timely = pl.col("start_us").is_not_null() & (pl.col("duration_us") >= 0).fill_null(False)
    for good, expected in (
        (pl.col("step").is_in(traced), "a traced step of table step"),
        (pl.col("operation").is_between(0, last), f"operations 0 to {last} of table operation"),
        (timely, "a start, and a duration of 0 or more"),
    ):
        bad = timings.filter(~good)
        if not bad.is_empty():
            row = bad.row(0, named=True)
            raise BadInput(
                f"table timing: step {row['step']}, operation {row['operation']} (start_us "
                f"{row['start_us']}, duration_us {row['duration_us']}): expected {expected}; "
                "profile again"
            )


def _with_untimed(graph: Graph, timed: dict[int, tuple[int, int]]) -> list[tuple[int, int]]:
    end_us = max(end_us for _, end_us in timed.values())
    intervals = [(end_us, end_us)] * len(graph.names)
    for operation in reversed(graph.topological):
        starts_us = [intervals[target][0] for target in graph.successors[operation]]
        start_us = min(starts_us, default=end_us)
        intervals[operation] = timed.get(operation, (start_us, start_us))
    return intervals
