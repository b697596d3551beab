"""Li et al.'s predictor as printed: WIN and parsing from packets, equal shares, nothing of ours.

Source: Li et al., ICPE 2020, sections 3.1 to 3.4 and 4.1, with Algorithm 3.1 mended where it
cannot run (lab/async_sgd.md). What the paper leaves out is left out here: what the tracer
costs, the client's time between steps, several computations of a worker at once, what
contention does.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil

import polars as pl

from models.async_sgd import overhead, predictor
from models.async_sgd.http2 import last_window_bytes
from models.async_sgd.overhead import Overhead
from models.async_sgd.parameters import LinkProfile, Parameters, Settings, link_of
from models.async_sgd.predictor import AsyncSGD
from models.async_sgd.profiles import tables_of_run
from models.async_sgd.trace import Profile, read_profile
from models.async_sgd.workers import Workers
from models.profiled_run import of_run
from models.system import NotCovered, Tables
from warehouse.records import Record, Role, Scenario

UNCAPTURED = (
    "as published it reads WIN and the cost of parsing from captured packets, and none were "
    "captured; profile with tf_trace: {capture: true}"
)
_RECEIVER: Mapping[str, Role] = {"downlink": "worker", "uplink": "server"}


class PublishedFit(Record):
    """What was fitted: WIN is in `parameters.settings`, the lines of parsing are beside it."""

    parameters: Parameters
    overheads: tuple[Overhead, ...]


@dataclass(frozen=True)
class AsPublished(AsyncSGD):
    """The model with the paper's choices; `fitted` is what is kept of a fit."""

    fitted: PublishedFit

    def parameters_json(self) -> str:
        """Return what was fitted as canonical JSON; the profiled steps stay in their tables."""
        return self.fitted.canonical_json()

    def simulation(self, scenario: Scenario, seed: int) -> tuple[Workers, ...]:
        """Return what is simulated; a worker computes one operation at a time (Algorithm 3.1)."""
        return tuple(
            group._replace(options=replace(group.options, inter_op_threads=1, cores=1.0))
            for group in super().simulation(scenario, seed)
        )


def fit(tables: Tables) -> AsPublished:
    """Fit to a captured profile of one worker.

    Raises:
        NotCovered: no packets were captured.
        BadInput: tables that are incomplete, or tensors of one size only.
    """
    fitted = predictor.parameters_of(tables, Settings())
    (profiled,) = fitted.profiled
    streams = of_run(tables["stream"], profiled.run_id)
    window_bytes = _window_bytes(of_run(tables["http2_frame"], profiled.run_id))
    if streams.drop_nulls("operation").is_empty() or window_bytes is None:
        raise NotCovered(UNCAPTURED)
    node_types: dict[Role, str] = {node.role: node.node_type for node in profiled.scenario.nodes}
    recorded = tables_of_run(tables, profiled.run_id)
    received = overhead.transfers(
        streams, recorded["operation"], recorded["timing"], recorded["step"]
    )
    parameters = fitted.model_copy(
        update={
            "profiled": (profiled.model_copy(update={"client_gap_s": 0.0}),),
            "links": tuple(map(_plain, fitted.links)),
            "settings": paper_settings(window_bytes),
        }
    )
    lines = overhead.fit(received, node_types)
    return load_published(PublishedFit(parameters=parameters, overheads=lines), tables)


def load_published(published: PublishedFit, tables: Tables) -> AsPublished:
    """Return the model of fitted parameters, with the tables of the run that they name."""
    (profiled,) = published.parameters.profiled
    recorded = tables_of_run(tables, profiled.run_id)
    link = link_of(published.parameters, profiled.scenario)
    profile = read_profile(
        recorded,
        _cut(recorded, published.overheads),
        downlink_Bps=link.downlink_Bps,
        uplink_Bps=link.uplink_Bps,
    )
    profile = _with_lines(profile, recorded["operation"], published.overheads)
    return AsPublished(published.parameters, (profile,), published)


def paper_settings(window_bytes: int) -> Settings:
    """Return the paper's settings: WIN, equal shares, its rule for two servers, fifty steps."""
    return Settings(
        window_bytes=window_bytes,
        newcomer_weight=1.0,
        newcomer_pause_s=0.0,
        several_servers="two_servers",
        warm_up_steps=50,
        model_error=0.0,
    )


def _window_bytes(frames: pl.DataFrame) -> int | None:
    """Return the mean over directions of the WIN that receivers announced last."""
    windows_bytes = [
        last
        for direction in _RECEIVER
        if (last := last_window_bytes(frames, direction)) is not None
    ]
    return ceil(sum(windows_bytes) / len(windows_bytes)) if windows_bytes else None


def _plain(link: LinkProfile) -> LinkProfile:
    """Return a link that n transfers share by 1/n (section 3.1)."""
    equal = {"downlink_spread": 0.0, "uplink_spread": 0.0}
    return link.model_copy(update={**equal, "downlink_measured": None, "uplink_measured": None})


def _cut(tables: Tables, overheads: Sequence[Overhead]) -> pl.DataFrame:
    """Return, as table stream, transfers that end as long before their record as parsing takes."""
    parsing = [
        (operation, round(1e6 * _seconds(direction, size_bytes, overheads)))
        for operation, direction, size_bytes in _transfers(tables["operation"])
    ]
    timings = tables["timing"]
    starts = (
        tables["step"]
        .filter("traced")
        .select(pl.col("step").cast(timings.schema["step"]), since_us="start_us")
    )
    return (
        timings.join(
            pl.DataFrame(parsing, ["operation", "parsing_us"], orient="row").cast(
                {"operation": timings.schema["operation"]}
            ),
            on="operation",
        )
        .join(starts, on="step")
        .select(
            pl.col("step").cast(pl.Int32),
            pl.col("operation").cast(pl.Int32),
            first_us=pl.col("since_us") + pl.col("start_us"),
            last_us=pl.sum_horizontal("since_us", "start_us", "duration_us") - pl.col("parsing_us"),
        )
    )


def _with_lines(
    profile: Profile, operations: pl.DataFrame, overheads: Sequence[Overhead]
) -> Profile:
    """Return a profile whose parsing takes α·size + β, whatever was recorded (section 3.2.1)."""
    parsing_s = [
        _seconds(direction, size_bytes, overheads)
        for _, direction, size_bytes in _transfers(operations)
    ]
    recorded = operations.height
    return replace(
        profile,
        steps=tuple(
            replace(step, seconds=(*step.seconds[:recorded], *parsing_s)) for step in profile.steps
        ),
    )


def _transfers(operations: pl.DataFrame) -> list[tuple[int, str, int]]:
    """Return operation, direction and bytes of each transfer, in order of operations."""
    rows = operations.sort("operation").filter(pl.col("resource").is_in(list(_RECEIVER)))
    return rows.select("operation", "resource", pl.col("size_bytes").fill_null(0)).rows()


def _seconds(direction: str, size_bytes: int, overheads: Sequence[Overhead]) -> float:
    (line,) = (line for line in overheads if line.role == _RECEIVER[direction])
    return line.seconds(size_bytes) if size_bytes else 0.0
