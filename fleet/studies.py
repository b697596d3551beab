"""What is measured and forecast of a member of the fleet: studies for visits and to watch it."""

from collections.abc import Callable, Iterator, Sequence

import polars as pl

import networks
from fleet.members import WATCH, Member
from forecasting.forecast import ScenarioForecast, predict_curves
from forecasting.inputs import systems_named
from profilers.clusters.node_types import fleet_types, node_types
from profilers.probes import PROBES
from profilers.record_file import validated
from studies.curve import Curve
from studies.study import Study
from warehouse.records import Backend, BadInput, error_context
from warehouse.warehouse import Warehouse

_SIDE_PX = 32
"""Of images, where a network takes them so small."""
_SERVER = "emu.server"
_TRAINING = (
    ("pytorch", "all_reduce"),
    ("tensorflow", "all_reduce"),
    ("tensorflow", "async_parameter_server"),
)


def profiling_study(member: Member) -> Study:
    """Return the study whose rounds are the visits to a member.

    Raises:
        BadInput: a probe has nothing to measure, or there is no such network or node type.
    """
    return _study(f"fleet.{member.node_type}", member, member.probes)


def watching_study(member: Member) -> Study:
    """Return the study whose rounds watch a member for drift.

    Raises:
        BadInput: there is no such node type.
    """
    return _study(f"watch.{member.node_type}", member, (WATCH,))


def _study(name: str, member: Member, probes: tuple[str, ...]) -> Study:
    with error_context(f"{member.node_type}: networks", networks.UnknownNetwork):
        fields = {
            "name": name,
            "description": f"The node type {member.node_type}, profiled by the fleet.",
            "backend": member.backend,
            "probes": dict.fromkeys(probes),
            "train": _training(member, probes),
        }
        return validated(Study, fields, f"{member.node_type}: ")


def _training(member: Member, probes: Sequence[str]) -> list[Curve]:
    """Return the curves of which probes have something to measure.

    Raises:
        BadInput: a probe has nothing to measure.
    """
    every = [
        (curve, {probe for probe in probes if any(map(PROBES[probe].concerns, scenarios))})
        for curve in _curves(member)
        for scenarios in [curve.scenarios("emulated")]
    ]
    # What every training has, such as links, needs no other training than the other probes do.
    picky = [probe for probe in probes if not all(probe in concerning for _, concerning in every)]
    train = [way for way in every if any(probe in way[1] for probe in picky)] or every[:1]
    for probe in probes:
        if not any(probe in concerning for _, concerning in train):
            raise BadInput(
                f"{probe} has nothing to measure of {', '.join(member.networks)} on "
                f"{member.node_type}; name a network of its framework: `stepcast support`"
            )
    return [curve for curve, _ in train]


def _curves(member: Member) -> Iterator[Curve]:
    """Yield each network in each way in which its frameworks train it on these nodes."""
    emulated = node_types().get(member.node_type)
    shaped_mbps = 1000.0 if emulated is None else emulated.bandwidth_mbps
    # Machines serve each other.
    server = member.node_type if member.node_type in fleet_types() else _SERVER
    for dnn in member.networks:
        ways = [way for way in _TRAINING if dnn in networks.names(way[0])]
        if not ways:
            networks.check(dnn, framework="pytorch")
        for framework, strategy in ways:
            least = networks.minimum_image_size(dnn, framework)
            fields = {
                "dnn": dnn,
                "framework": framework,
                "strategy": strategy,
                "image_size": member.image_size or max(least, _SIDE_PX),
                "batch_size": member.batch_size,
                "worker": member.node_type,
                "link_mbps": member.link_mbps or shaped_mbps,
                "workers": sorted({1, member.workers}),
                "is_judged": False,
                **({} if strategy == "all_reduce" else {"server": server}),
            }
            yield validated(Curve, fields, f"{member.node_type}: ")


# What systems forecast of a member's networks from its newest profiles.


_SCHEMA = {
    "scenario": pl.String,
    "system": pl.String,
    "metric": pl.String,
    "value": pl.Float64,
    "low": pl.Float64,
    "high": pl.Float64,
    "fit_id": pl.String,
    "is_new": pl.Boolean,
    "refused": pl.String,
}


def refit(
    member: Member, backend: Backend, warehouse: Warehouse, say: Callable[[str], None]
) -> pl.DataFrame:
    """Fit what can be fitted to a member's newest profiles, and forecast its networks.

    Fits and forecasts go to the ledger, as those that `stepcast predict` makes: asked for, and
    judged apart from those of studies.

    Returns:
        One row per scenario and system: a forecast with its interval, or why there is none.
    """
    curves = [
        curve.model_copy(update={"is_judged": True}) for curve in profiling_study(member).curves
    ]
    answer = predict_curves(warehouse, curves, systems_named([]), backend=backend, say=say)
    forecasts = [_told(forecast) for forecast in answer.forecasts]
    refused = [
        {
            "scenario": refusal.scenario.label,
            "system": refusal.system.name,
            "refused": refusal.reason,
        }
        for refusal in answer.refused
        if not refusal.foreign
    ]
    return pl.DataFrame([*forecasts, *refused], schema=_SCHEMA)


def _told(forecast: ScenarioForecast) -> dict[str, object]:
    return {
        "scenario": forecast.scenario.label,
        "system": forecast.system.name,
        "metric": forecast.metric.name,
        "value": forecast.value,
        "low": forecast.low,
        "high": forecast.high,
        "fit_id": forecast.fit.fit_id,
        "is_new": forecast.is_new,
    }
