"""ICPE 2020's predictor as a system, from a profile with the servers that train or with one."""

from dataclasses import replace

from models.async_sgd import as_published, predictor
from models.async_sgd.as_published import AsPublished, Published
from models.async_sgd.one_server import OneServer
from models.async_sgd.predictor import AsyncSGD
from models.async_sgd.replaced import on_servers
from models.parameter_servers import STEPS, foreign, links, of_like_workers, profiles, steps_of
from models.system import System, Tables
from warehouse.asks import Ask, Refusal
from warehouse.records import Scenario


def _rests_on(scenario: Scenario) -> tuple[Ask, ...] | Refusal:
    if refused := foreign(scenario):
        return refused
    contention = Ask("contention", "cluster", scenario, optional=True)
    return (*profiles(scenario), links(scenario), contention)


def _rests_on_one_server(scenario: Scenario) -> tuple[Ask, ...] | Refusal:
    if refused := foreign(scenario):
        return refused
    if scenario.strategy.servers == 1:
        reason = "it puts variables of one server on several, and this has one"
        return Refusal(reason, foreign=True)
    return _rests_on(on_servers(scenario, 1, "round_robin"))


def _rests_on_captures(scenario: Scenario) -> tuple[Ask, ...] | Refusal:
    if scenario.strategy.servers > 2 and not foreign(scenario):
        return Refusal("as published it knows how one or two servers share links, not more")
    rests = of_like_workers(scenario)
    if isinstance(rests, Refusal):
        return rests
    captured = (replace(one, switched_on="capture") for one in profiles(scenario))
    return (*captured, links(scenario))


def _fit_published(tables: Tables) -> AsPublished:
    return as_published.fit(
        steps_of(tables), tables["edge"], tables["stream"], tables["http2_frame"]
    )


def _load_published(parameters: str, tables: Tables) -> AsPublished:
    published = Published.model_validate_json(parameters)
    return as_published.read(published, steps_of(tables), tables["edge"])


def _fit(tables: Tables) -> AsyncSGD:
    return predictor.fit(**steps_of(tables), edges=tables["edge"], contention=tables["contention"])


def _load(parameters: str, tables: Tables) -> AsyncSGD:
    return AsyncSGD.from_json(
        parameters,
        operations=tables["operation"],
        edges=tables["edge"],
        timings=tables["timing"],
        steps=tables["step"],
    )


ASYNC_SGD = System(
    name="async_sgd",
    version="7",
    what="Throughput by simulation of the traced steps, with an interval (Li et al., ICPE 2020).",
    source="Li, Yan, Paolieri, Golubchik, ICPE 2020",
    tables=(*STEPS, "edge", "contention"),
    rests_on=_rests_on,
    fit=_fit,
    load=_load,
    beside="linear",
)
ONE_SERVER = System(
    name="async_sgd_one_server",
    version="4",
    what="As async_sgd, on several servers from the profile of one: its variables put on them.",
    source="ours",
    tables=ASYNC_SGD.tables,
    rests_on=_rests_on_one_server,
    fit=lambda tables: OneServer(_fit(tables), tables["operation"]),
    load=lambda text, tables: OneServer(_load(text, tables), tables["operation"]),
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
    rests_on=_rests_on_captures,
    fit=_fit_published,
    load=_load_published,
)
