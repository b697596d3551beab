"""Everything Dagster is to know; imports no framework, so that it is up in seconds."""

from collections.abc import Mapping

from dagster import (
    Definitions,
    in_process_executor,
    load_asset_checks_from_modules,
    load_assets_from_modules,
)

from assets import accuracy, captures, checks, cluster, fits, measured, predictions, profiles
from pipelines.jobs import demo
from pipelines.resources import resources
from pipelines.schedules import half_hourly_variance, weekly_reprofiling


def definitions(with_resources: Mapping[str, object]) -> Definitions:
    """Return the definitions, with the resources of a run.

    Steps run one after another in one process: nothing may run beside what measures.
    """
    modules = [accuracy, captures, cluster, fits, measured, predictions, profiles]
    return Definitions(
        assets=load_assets_from_modules(modules),
        asset_checks=load_asset_checks_from_modules([checks]),
        jobs=[demo],
        schedules=[half_hourly_variance, weekly_reprofiling],
        resources=with_resources,
        executor=in_process_executor,
    )


defs = definitions(resources())
