"""Runs, scenarios, samples and links as predictors see them."""

import json
from collections.abc import Mapping, Sequence

import polars as pl

from tests.made_run import raw_table
from tests.models.async_sgd.frames import RUN_ID, Tables
from warehouse.records import NodeGroup, Scenario, Strategy, TrainingWorkload

LINK_MBPS, OTHER_LINK_MBPS = 0.8, 8.0


def scenario(
    workers: int = 1,
    *,
    servers: int = 1,
    batch_size: int = 8,
    node_type: str = "emu.1c",
    link_mbps: float | None = LINK_MBPS,
    **strategy: object,
) -> Scenario:
    """Return a scenario whose workers run one operation at a time."""
    return Scenario(
        workload=TrainingWorkload(dnn="small_cnn", image_size=32, batch_size=batch_size),
        strategy=Strategy.model_validate({"workers": workers, "servers": servers, **strategy}),
        nodes=(
            NodeGroup(
                role="worker",
                node_type=node_type,
                count=workers,
                cpu_share=1.0,
                threads=1,
                inter_op_threads=1,
            ),
            NodeGroup(role="server", node_type="emu.server", count=servers),
        ),
        link_mbps=link_mbps,
    )


def run_tables(profiled: Scenario | None = None) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return tables run and scenario of one profile run, of two links runs and of another run."""
    profiled = profiled or scenario()
    runs = raw_table(
        "run",
        "run_id scenario_id status config",
        [
            (RUN_ID, profiled.scenario_id, "ok", "{}"),
            ("other", None, "failed", "{}"),
            ("links-1", None, "ok", json.dumps({"link_mbps": profiled.link_mbps})),
            ("links-2", None, "ok", json.dumps({"link_mbps": OTHER_LINK_MBPS})),
        ],
    )
    known = (profiled.scenario_id, profiled.canonical_json())
    return runs, raw_table("scenario", "scenario_id canonical", [known])


def samples(metrics: Mapping[str, Sequence[float | None]], run_id: str = RUN_ID) -> pl.DataFrame:
    """Return table sample: the first value is of the whole run, others of windows."""
    rows = [
        (run_id, metric, "s", index - 1 if index else None, value)
        for metric, values in metrics.items()
        for index, value in enumerate(values)
    ]
    return raw_table("sample", "run_id metric unit window value", rows)


def links(
    downlink_Bps: Sequence[float],
    uplink_Bps: Sequence[float],
    shared_Bps: Sequence[float] = (1.0, 1.0),
    run_id: str = "links-1",
) -> pl.DataFrame:
    """Return table link: trials of a single flow, and in each direction one of several."""
    rows = [
        (run_id, direction, flows, trial, speed_Bps)
        for direction, speeds_Bps in (("downlink", downlink_Bps), ("uplink", uplink_Bps))
        for flows, trials in ((1, [[speed] for speed in speeds_Bps]), (2, [shared_Bps]))
        for trial, speeds in enumerate(trials)
        for speed_Bps in speeds
    ]
    return raw_table("link", "run_id direction flows trial bandwidth_Bps", rows)


def raw_tables(
    made: Tables,
    metrics: Mapping[str, Sequence[float | None]],
    profiled: Scenario | None = None,
    /,
    **more: pl.DataFrame,
) -> dict[str, pl.DataFrame]:
    """Return the raw tables of a profile without packets on links of 100 kB/s, or with `more`."""
    runs, scenarios = run_tables(profiled)
    return {
        **made.raw,
        "run": runs,
        "scenario": scenarios,
        "sample": samples(metrics),
        "link": links([100e3], [100e3]),
        "stream": pl.DataFrame(),
        **more,
    }
