"""Srift as a system."""

from dataclasses import replace

from models.srift import predictor
from models.srift.asks import foreign, passes
from models.srift.predictor import Srift
from models.system import System, Tables
from warehouse.asks import Ask, Refusal
from warehouse.records import Scenario


def _rests_on(scenario: Scenario) -> tuple[Ask, ...] | Refusal:
    if refused := foreign(scenario):
        return refused
    memory = (replace(one, optional=True) for one in passes(scenario, "torch_memory"))
    return (
        Ask("links", "cluster", scenario),
        Ask("allreduce", "cluster", scenario),
        *memory,
        *passes(scenario),
        Ask("slowdown", "cluster", scenario, optional=True),
    )


def _fit(tables: Tables) -> Srift:
    return predictor.fit(
        runs=tables["run"],
        scenarios=tables["scenario"],
        compute=tables["compute"],
        layers=tables["layer"],
        layer_times=tables["layer_time"],
        allreduce=tables["allreduce"],
        clusters=tables["cluster_node"],
        links=tables["link"],
        samples=tables["sample"],
    )


SRIFT = System(
    name="srift",
    version="4",
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
    rests_on=_rests_on,
    fit=_fit,
    load=lambda text, _: Srift.from_json(text),
    pooled=True,
)
