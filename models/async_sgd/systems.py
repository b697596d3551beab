"""ICPE 2020's predictor as systems: from a profile with the servers that train, or with one."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import polars as pl

from models.async_sgd import as_published, predictor
from models.async_sgd.as_published import PublishedFit
from models.async_sgd.predictor import AsyncSGD
from models.async_sgd.profiles import scenario_on_servers
from models.inputs import (
    STEPS,
    inputs_of_like_workers,
    link_input,
    out_of_scope_for_servers,
    profile_inputs,
)
from models.system import System
from warehouse.records import Scenario
from warehouse.requirements import Refusal, Requirement


def _requires(scenario: Scenario) -> tuple[Requirement, ...] | Refusal:
    if refused := out_of_scope_for_servers(scenario):
        return refused
    contention = Requirement("contention", "cluster", scenario, optional=True)
    return (*profile_inputs(scenario), link_input(scenario), contention)


def _rests_on_one_server(scenario: Scenario) -> tuple[Requirement, ...] | Refusal:
    if refused := out_of_scope_for_servers(scenario):
        return refused
    if scenario.strategy.servers == 1:
        reason = "it puts variables of one server on several, and this has one"
        return Refusal(reason, foreign=True)
    return _requires(scenario_on_servers(scenario, 1, "round_robin"))


def _rests_on_captures(scenario: Scenario) -> tuple[Requirement, ...] | Refusal:
    if scenario.strategy.servers > 2 and not out_of_scope_for_servers(scenario):
        return Refusal("as published it knows how one or two servers share links, not more")
    rests = inputs_of_like_workers(scenario)
    if isinstance(rests, Refusal):
        return rests
    captured = (replace(input_, switched_on="capture") for input_ in profile_inputs(scenario))
    return (*captured, link_input(scenario))


ASYNC_SGD = System(
    name="async_sgd",
    version="7",
    what="Throughput by simulation of the traced steps, with an interval (Li et al., ICPE 2020).",
    source="Li, Yan, Paolieri, Golubchik, ICPE 2020",
    tables=(*STEPS, "edge", "contention"),
    inputs=_requires,
    fit=predictor.fit,
    load=AsyncSGD.from_json,
    beside="linear",
)
ONE_SERVER = System(
    name="async_sgd_one_server",
    version="4",
    what="As async_sgd, on several servers from the profile of one: its variables put on them.",
    source="ours",
    tables=ASYNC_SGD.tables,
    inputs=_rests_on_one_server,
    fit=lambda tables: OneServer(predictor.fit(tables), tables["operation"]),
    load=lambda text, tables: OneServer(AsyncSGD.from_json(text, tables), tables["operation"]),
)
ASYNC_SGD_PAPER = replace(
    ASYNC_SGD,
    beside="",
    in_words="async_sgd as published",
    name="async_sgd_paper",
    version="1",
    what="Baseline: as printed, with WIN and parsing from packets, equal shares, fifty steps left "
    "out.",
    tables=(*STEPS, "edge", "stream", "http2_frame"),
    inputs=_rests_on_captures,
    fit=as_published.fit,
    load=lambda text, tables: as_published.load_published(
        PublishedFit.model_validate_json(text), tables
    ),
)


# Throughput with several parameter servers, from profiles of one worker and one server.
#
# The paper (section 5) profiles with as many servers as train. Here the variables of one server are
# put on several, so that no cluster need be rented to compare numbers of servers; it takes more for
# granted (`models/async_sgd/profiles.py`).


@dataclass(frozen=True)
class OneServer:
    """A model of one server, and the table operation of its profiles."""

    model: AsyncSGD
    operations: pl.DataFrame

    def predict(self, scenarios: Sequence[Scenario]) -> pl.DataFrame:
        """Return scenario_id, value, low, high of throughput_steps_per_s, one row per scenario.

        Raises:
            BadInput: as `AsyncSGD.predict`, the number and placement of servers excepted.
        """
        rows = []
        for scenario in scenarios:
            servers, placement = scenario.strategy.servers, scenario.strategy.placement
            on_servers = self.model.with_servers(servers, placement, self.operations)
            rows.append(on_servers.predict([scenario]))
        return pl.concat(rows)

    def parameters_json(self) -> str:
        """Return the parameters of the model of one server as canonical JSON."""
        return self.model.parameters_json()
