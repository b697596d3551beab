"""The asset of embedders of DNNs' graphs, trained for a type of dataset, and its job."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dagster import (
    Config,
    Definitions,
    MaterializeResult,
    MetadataValue,
    ResourceParam,
    asset,
    define_asset_job,
    in_process_executor,
)
from pydantic import Field

from assets.metadata import OWNERS
from forecasting import embedders
from profilers.steady.hostlock import host_lock
from studies.messages import Progress

JOB = "embedder_training"


class Training(Config):
    """What is trained."""

    dataset: str = Field(default="digits", description="The type of dataset.")
    minutes: float = Field(default=60.0, description="Of all trainings for it together.")
    source: str = Field(default="", description="The folder of a dataset that is not shipped.")


@asset(
    key=["embedders", "trained"],
    description="A graph hypernetwork's embedder, trained for a type of dataset (PredictDDL).",
    group_name="embedders",
    owners=OWNERS,
    kinds={"pytorch", "fit"},
    pool="measuring_host",
)
def trained(config: Training, progress: ResourceParam[Progress]) -> MaterializeResult:
    """Train, and judge on networks that training did not draw; nothing measures meanwhile."""
    with host_lock(progress.say):
        embedder = embedders.train(
            config.dataset,
            minutes=config.minutes,
            source=Path(config.source) if config.source else None,
            say=progress.say,
        )
    return MaterializeResult(
        metadata={
            "dataset": MetadataValue.text(config.dataset),
            "path": MetadataValue.path(str(embedder.path)),
            "iterations": MetadataValue.int(embedder.progress.iterations),
            "minutes": MetadataValue.float(embedder.progress.seconds / 60),
            "held_out_networks": MetadataValue.int(embedder.judged.networks),
            "loss_predicted": MetadataValue.float(embedder.judged.predicted),
            "loss_random": MetadataValue.float(embedder.judged.random),
            "less_by_at_least": MetadataValue.float(embedder.judged.low),
            "less_by_at_most": MetadataValue.float(embedder.judged.high),
        }
    )


def embedder_definitions(with_resources: Mapping[str, object] | None = None) -> Definitions:
    """Return the asset and its job."""
    job = define_asset_job(
        JOB,
        selection=[trained],
        executor_def=in_process_executor,
        description="Train an embedder of DNNs' graphs for a type of dataset.",
    )
    return Definitions(assets=[trained], jobs=[job], resources=with_resources or {})


def config_of(dataset: str, minutes: float, source: Path | None) -> dict[str, Any]:
    """Return a run's configuration."""
    given = {"dataset": dataset, "minutes": minutes, "source": str(source or "")}
    return {"ops": {"embedders__trained": {"config": given}}}
