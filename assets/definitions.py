"""The assets, checks and job of a study."""

import warnings
from pathlib import Path

from dagster import (
    BetaWarning,
    Definitions,
    define_asset_job,
    in_process_executor,
    with_source_code_references,
)

from assets.accuracy import report_asset, table_asset
from assets.analyses import analyses
from assets.checks import checks
from assets.forecasts import fit_asset, prediction_asset, recommendations, simulations
from assets.measurements import measured_asset, profile_asset
from assets.study_lineage import read_lineage
from warehouse.records import Backend

JOB_OF_STUDY = {"stepcast/job": "study"}
"""Tag of jobs that run a study, and of their runs: tells them from upkeep in lists."""


def definitions_of(path: Path, backend: Backend = "emulated") -> Definitions:
    """Return what Dagster is to know of a study: only the probes and systems that it concerns.

    Which these are may depend on the backend: one whose links are as they are has one speed.
    """
    of = read_lineage(path, backend)
    predicted = [of.key("predictions", system.name) for system in of.systems]
    assets = [
        *(profile_asset(of, probe) for probe in of.profiling),
        *analyses(of),
        *(fit_asset(of, system) for system in of.systems),
        *(prediction_asset(of, system) for system in of.systems),
        *simulations(of),
        *recommendations(of),
        *(measured_asset(of, probe, predicted) for probe in of.measuring),
        *((table_asset(of), report_asset(of)) if of.study.test else ()),
    ]
    job = define_asset_job(
        of.name,
        selection=assets,
        # What measures runs alone: steps one after another, in one process.
        executor_def=in_process_executor,
        tags=JOB_OF_STUDY,
        description=of.study.description or f"Profile, predict and measure {of.study.name}.",
    )
    with warnings.catch_warnings():
        # The link from an asset to its code is a beta of Dagster's; nothing rests on it.
        warnings.simplefilter("ignore", BetaWarning)
        linked = with_source_code_references(assets)
    return Definitions(assets=linked, asset_checks=checks(of), jobs=[job])
