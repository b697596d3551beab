"""What runs together."""

from dagster import AssetSelection, define_asset_job, in_process_executor

demo = define_asset_job(
    "demo",
    selection=AssetSelection.all(),
    executor_def=in_process_executor,
    description="Profile one worker, predict many, measure them, show the error.",
)
