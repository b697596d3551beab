"""Jobs of a study that differ in one thing, beside each other."""

from collections.abc import Mapping
from typing import Literal

import polars as pl

from studies.job import Job
from studies.study import Study

Varied = Literal["batch_size", "link_mbps", "order", "servers", "placement"]
_NAMES: Mapping[Varied, str] = {
    "batch_size": "batch of {}",
    "link_mbps": "{:g} Mb/s",
    "order": "order {}",
    "servers": "{} server(s)",
    "placement": "placed {}",
}
_NOT_COMPARED = ("workers", "profiled_link_mbps")


def alike(study: Study, varied: Varied) -> list[list[int]]:
    """Return the places of jobs that differ in `varied` alone, whatever their workers.

    Groups of one are left out. Where a job is profiled is no difference.
    """
    groups: dict[str, list[int]] = {}
    for place, job in enumerate(study.jobs):
        groups.setdefault(_but(job, varied), []).append(place)
    return [group for group in groups.values() if len(group) > 1]


def curves(
    study: Study, rows: pl.DataFrame, group: list[int], varied: Varied
) -> dict[str, pl.DataFrame]:
    """Return workers, predicted and measured (examples/s) of each job of a group, by label.

    `rows` has job, workers, predicted and measured, in steps/s.
    """
    found = {}
    for place in sorted(group, key=lambda place: getattr(study.jobs[place], varied)):
        job = study.jobs[place]
        label = _NAMES[varied].format(getattr(job, varied))
        if varied == "link_mbps" and job.profiled_link_mbps not in (None, job.link_mbps):
            label += f", profiled at {job.profiled_link_mbps:g}"
        found[label] = rows.filter(job=place).select(
            "workers", pl.col("predicted", "measured") * job.batch_size
        )
    return found


def shared_title(job: Job, varied: Varied) -> str:
    """Return what the jobs of a group have in common, in short."""
    parts = {
        "batch_size": f"b{job.batch_size}",
        "link_mbps": f"{job.link_mbps:g} Mb/s",
        "order": job.order if job.order != "framework" else "",
        "servers": f"M={job.servers}" if job.servers > 1 else "",
        "placement": job.placement if job.placement != "round_robin" else "",
    }
    named = [text for name, text in parts.items() if text and name != varied]
    return ", ".join([f"{job.dnn} {job.image_size}px", *named])


def _but(job: Job, varied: Varied) -> str:
    return job.model_dump_json(exclude={varied, *_NOT_COMPARED})
