"""Srift as a system."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import polars as pl

from models.inputs import out_of_scope_for_allreduce, pass_inputs
from models.srift import allreduce, iteration, latency, predictor
from models.srift.parameters import PAPER, Parameters, ProfiledNetwork
from models.srift.predictor import Srift
from models.system import System, Tables
from warehouse.records import BadInput, Scenario
from warehouse.requirements import PlannedSubject, Refusal, Requirement


def _requires(scenario: Scenario) -> tuple[Requirement, ...] | Refusal:
    if refused := out_of_scope_for_allreduce(scenario):
        return refused
    memory = (replace(input_, optional=True) for input_ in pass_inputs(scenario, "torch_memory"))
    return (
        Requirement("links", "cluster", scenario),
        Requirement("allreduce", "cluster", scenario),
        *memory,
        *pass_inputs(scenario),
        Requirement("slowdown", "cluster", scenario, optional=True),
        Requirement("torch_throughput", "train", scenario, optional=True),
    )


def _rests_on_less(scenario: Scenario) -> tuple[Requirement, ...] | Refusal:
    """Rest on what the paper probes: no slowdown beside all-reduces, nor steps of training."""
    rests = _requires(scenario)
    if isinstance(rests, Refusal):
        return rests
    return tuple(rest for rest in rests if rest.probe not in ("slowdown", "torch_throughput"))


def _fit_as_published(tables: Tables) -> Srift:
    sampled = select_published_batches(tables["compute"])
    fitted = predictor.fit({**tables, "compute": sampled}, PAPER)
    networks = tuple(map(_one_scale, fitted.parameters.networks))
    return Srift(fitted.parameters.model_copy(update={"networks": networks}))


def _one_scale(network: ProfiledNetwork) -> ProfiledNetwork:
    """Return a network whose steps scatter by the same part at every batch size (footnote 3)."""
    return network.model_copy(
        update={
            "nodes": {
                name: node.model_copy(
                    update={"latency": node.latency.model_copy(update={"deviation": None})}
                )
                for name, node in network.nodes.items()
            }
        }
    )


def select_published_batches(compute: pl.DataFrame) -> pl.DataFrame:
    """Return the rows of table compute of the paper's four batch sizes, of each run (section 4.1).

    They are 1, a third, two thirds and all of the largest; of what was profiled, the nearest to
    each of them, the smaller of two that are as near.
    """
    parts = [compute.clear()]
    for _, rows in compute.group_by("run_id", maintain_order=True):
        batch_sizes = rows["batch_size"].unique().sort().to_list()
        points = latency.sample_points(max(batch_sizes))
        nearest = {min(batch_sizes, key=lambda size: (abs(size - point), size)) for point in points}
        parts.append(rows.filter(pl.col("batch_size").is_in(nearest)))
    return pl.concat(parts)


def _check(scenario: Scenario, planned: Sequence[PlannedSubject], mtu_bytes: int | None) -> None:
    """Refuse a grid of all-reduces or batch sizes to which nothing can be fitted."""
    allreduces = [need for need in planned if need.subject.probe == "allreduce"]
    worlds = {int(need.subject.config["world_size"]) for need in allreduces}
    clusters = {(need.subject.link_mbps, need.subject.config["worker"]) for need in allreduces}
    for need in allreduces[:1]:
        grid = need.settings["sizes_bytes"], worlds, need.settings["concurrent"]
        _tell("allreduce", partial(allreduce.check_grid, *grid, mtu_bytes, len(clusters)))
    searched = [need.settings["most"] for need in planned if need.subject.probe == "torch_memory"]
    for need in (need for need in planned if need.subject.probe == "torch_compute"):
        sizes = need.settings["batch_sizes"]
        _tell("torch_compute.batch_sizes", partial(latency.check_batch_sizes, sizes))
        for group in scenario.worker_groups:
            batch_size = group.batch_size or scenario.workload.batch_size
            iteration.check_fits(group.node_type, batch_size, 1, max(*searched, *sizes))


def _tell(probe: str, check: Callable[[], None]) -> None:
    try:
        check()
    except BadInput as error:
        raise BadInput(f"probes.{probe}: {error}") from None


SRIFT = System(
    name="srift",
    version="5",
    what="Iterations by simulation of computing and all-reduces, with an interval "
    "(Luo et al., 2022).",
    source="Luo, West, Krishnamurthy, Ceze, Srift, section 4",
    tables=(
        "run",
        "scenario",
        "compute",
        "layer",
        "layer_time",
        "allreduce",
        "cluster_node",
        "link",
        "sample",
    ),
    inputs=_requires,
    fit=predictor.fit,
    load=lambda text, _: Srift(Parameters.model_validate_json(text)),
    pooled=True,
    beside="ideal_scaling",
    check=_check,
)
SRIFT_PAPER = replace(
    SRIFT,
    beside="",
    in_words="Srift as published",
    name="srift_paper",
    version="1",
    what="Baseline: Srift as published, four batch sizes, ideal overlap, trees of bandwidth.",
    inputs=_rests_on_less,
    fit=_fit_as_published,
)
