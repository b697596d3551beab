"""Rows of landed runs, or of those in sets, read from Parquet files: no database is opened."""

from pathlib import Path

import polars as pl

from studies.rounds import Round
from warehouse.records import Purpose, Run
from warehouse.sets import kept_tables


def rows(
    round_: Round, landing: Path, probe: str, name: str, purpose: Purpose | None = None
) -> pl.DataFrame:
    """Return raw table `name` of all runs of one probe, or those of a purpose, of a round.

    Adds the columns `link_mbps` and `name` (the title of the need).
    """
    frames = [
        table(landing, run, name).with_columns(
            link_mbps=pl.lit(need.subject.link_mbps, pl.Float64), name=pl.lit(need.title)
        )
        for need, run in round_.runs_of(probe).items()
        if purpose in (None, need.purpose)
    ]
    return pl.concat(frames) if frames else pl.DataFrame()


def of_curves(round_: Round, landing: Path, name: str) -> pl.DataFrame:
    """Return raw table `name` of the profile of each curve of a round that has landed.

    Adds the columns `curve` and `link_mbps`, the speed of the links it trains on, which need not be
    the one it was profiled on.
    """
    profiles = {need.scenario: run for need, run in round_.runs_of("tf_trace").items()}
    frames = [
        table(landing, profiles[profiled], name).with_columns(
            curve=pl.lit(index, pl.Int32),
            link_mbps=pl.lit(curve.scenario(1, round_.backend).link_mbps, pl.Float64),
        )
        for index, curve in enumerate(round_.study.curves)
        if (profiled := curve.profiled(round_.backend)) in profiles
    ]
    return pl.concat(frames) if frames else pl.DataFrame()


def table(landing: Path, run: Run, name: str) -> pl.DataFrame:
    """Return one raw table of a landed run."""
    return tables(landing, run)[name]


def tables(landing: Path, run: Run) -> dict[str, pl.DataFrame]:
    """Return all raw tables of a landed run, by name; one without a file is left out."""
    frames = {}
    for name, rows in kept_tables(landing, run.run_id).items():
        frame = pl.from_arrow(rows)
        assert isinstance(frame, pl.DataFrame)
        frames[name] = frame
    return frames
