"""Ceer as a system that recommends (section IV-D), with its rules of thumb beside it (V)."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import polars as pl

from forecasting.advice import Advice, Nodes, Offer, Option, Question, Span
from models.ceer import fitted
from models.ceer.decisive import decisive
from models.ceer.network import Network, of_graph
from models.ceer.objectives import Objective, cheapest, fastest
from models.ceer.offers import Instance, pro_rata
from models.ceer.predictor import Ceer
from models.ceer.recommendation import Candidate, Recommended, recommend
from networks.extraction import extracted
from networks.operation_graph import OperationGraph
from warehouse.records import BadInput, Market

_OBJECTIVES = {"time": fastest, "cost": cheapest}
_ALTERNATIVES = 3
_DECISIVE = 3  # types of operations that are named


@dataclass(frozen=True)
class CeerAdvising:
    """A fitted Ceer that can be asked; `extract` returns the graph of a DNN, batch and image."""

    model: Ceer
    extract: Callable[[str, int, int], OperationGraph] = field(repr=False)

    def advise(self, question: Question, offers: Sequence[Offer]) -> Advice:
        """Rank every number of devices of every offer that was measured.

        Raises:
            BadInput: as `forecasting.advice.Advising`.
        """
        rows = self._rows(question, offers)
        ranked = recommend(pl.DataFrame(rows, infer_schema_length=None), _objective(question))
        options = {_key(row): _option(row) for row in rows if row["time_s"] is not None}
        feasible = [one for one in ranked.ranking if one.obstacle is None]
        return Advice(
            choice=options[_place(feasible[0])] if feasible else None,
            alternatives=tuple(options[_place(one)] for one in feasible[1 : 1 + _ALTERNATIVES]),
            policies={
                name: None if one is None else options.get(_place(one))
                for name, one in ranked.strategies.items()
            },
            relaxations=() if feasible else tuple(_relaxations(ranked, question)),
            searched=f"{len(rows)} offers{self._why(question, feasible)}",
        )

    def front(self, question: Question, offers: Sequence[Offer]) -> tuple[Option, ...]:
        """Return what none of the offers, with any measured number of devices, dominates.

        Raises:
            BadInput: as `forecasting.advice.Advising`.
        """
        rows = self._rows(question, offers)
        ranked = recommend(pl.DataFrame(rows, infer_schema_length=None), _objective(question))
        within = {_place(one) for one in ranked.ranking if one.obstacle is None}
        options = [_option(row) for row in rows if _key(row) in within]
        front: list[Option] = []
        for one in sorted(options, key=lambda one: (one.time_s.value, one.cost_usd.value)):
            if not front or one.cost_usd.value < front[-1].cost_usd.value:
                front.append(one)
        return tuple(front)

    def parameters_json(self) -> str:
        """Return the fitted parameters."""
        return self.model.parameters_json()

    def _rows(self, question: Question, offers: Sequence[Offer]) -> list[dict[str, Any]]:
        """Return what each measured number of devices of each offer takes and costs.

        Raises:
            BadInput: the batch is a multiple of none of these numbers.
        """
        rows = list(self._priced(question, offers))
        if not rows:
            measured = sorted({one.devices for one in self.model.parameters.overheads})
            raise BadInput(
                f"a global batch of {question.global_batch} fits nowhere: expected a multiple of a "
                f"number of devices on offer whose steps were measured ({measured}); change "
                "--global-batch or --capacity"
            )
        return rows

    def _priced(self, question: Question, offers: Sequence[Offer]) -> Iterator[dict[str, Any]]:
        """Yield what each number of devices of each offer takes and costs; time NULL: not known."""
        link_mbps = self._link_mbps(question)
        for offer in offers:
            node_type, price = offer.price.node_type, offer.price
            setups = [one for one in self.model.parameters.overheads if one.node_type == node_type]
            if not setups:
                raise BadInput(
                    f"node type {node_type!r} has no profiled operations and steps, only "
                    f"{', '.join(self.model.node_types)} have; list it in a study, `stepcast run`"
                )
            for setup in setups:
                batch_size, left = divmod(question.global_batch, setup.devices)
                there = setup.devices == 1 or setup.link_mbps == link_mbps
                usd_per_hour = _usd_per_hour(offer, setup.devices)
                if left or not batch_size or not there or usd_per_hour is None:
                    continue
                network = self._network(question, batch_size)
                (step,) = (
                    self.model.predict(network, [node_type], devices=[setup.devices])
                    .filter(pl.col("link_mbps").eq_missing(setup.link_mbps))
                    .to_dicts()
                )
                known = step["step_s"] is not None
                time_s = step["step_s"] * question.iterations if known else None
                yield {
                    **step,
                    "instance": price.market,
                    "instance_devices": offer.devices,
                    "usd_per_hour": usd_per_hour,
                    "time_s": time_s,
                    "cost_usd": None if time_s is None else time_s * usd_per_hour / 3600,
                    "iterations": question.iterations,
                }

    def _network(self, question: Question, batch_size: int) -> Network:
        if question.image_size is None:
            raise BadInput("ceer predicts any image size: say which with --image-size")
        return of_graph(self.extract(question.dnn, batch_size, question.image_size))

    def _link_mbps(self, question: Question) -> float | None:
        """Return the speed that is asked for; where only one was measured, that."""
        setups = [one for one in self.model.parameters.overheads if one.devices > 1]
        speeds = {one.link_mbps for one in setups}
        if question.link_mbps is None and len(speeds) > 1:
            named = ", ".join(sorted("unshaped" if one is None else f"{one:g}" for one in speeds))
            raise BadInput(
                f"steps on links of several speeds were measured ({named}): choose one with "
                "--link-mbps"
            )
        return question.link_mbps or next(iter(speeds), None)

    def _why(self, question: Question, feasible: Sequence[Candidate]) -> str:
        """Say what decides between the best and the next best."""
        if len(feasible) < 2:
            return ""
        networks = [
            self._network(question, question.global_batch // one.devices) for one in feasible[:2]
        ]
        choice, other = feasible[:2]
        types = decisive(
            self.model,
            networks[0],
            *(choice, other),
            samples=question.iterations * question.global_batch,
            by=question.minimize,
            other_network=networks[1],
        ).head(_DECISIVE)
        said = ", ".join(
            f"{one['type']} {_difference(one, question.minimize)}" for one in types.to_dicts()
        )
        return f"; decisive against {other.devices} {other.node_type}: {said}"


def _difference(one: Mapping[str, Any], by: str) -> str:
    """Return by how much a type of operations makes the choice sooner or cheaper, below 0 so."""
    less = one["difference_usd"] if by == "cost" else one["difference_s"] / 3600
    sign = "−" if less < 0 else "+"
    return f"{sign}${abs(less):.4g}" if by == "cost" else f"{sign}{abs(less):.3g} h"


def _objective(question: Question) -> Objective:
    hours = question.max_hours
    return Objective(
        question.minimize,
        _OBJECTIVES[question.minimize],
        max_usd_per_hour=question.max_usd_per_hour,
        max_cost_usd=question.budget_usd,
        max_time_s=None if hours is None else 3600 * hours,
    )


def _usd_per_hour(offer: Offer, devices: int) -> float | None:
    """Return what so many devices cost: pro rata of one node, or whole ones; None: not on offer."""
    price = offer.price
    if devices > offer.devices:
        nodes, left = divmod(devices, offer.devices)
        return None if left or nodes > offer.capacity else nodes * price.usd_per_hour
    node = Instance(
        name=price.node_type,
        node_type=price.node_type,
        devices=offer.devices,
        usd_per_hour=price.usd_per_hour,
    )
    return pro_rata([node])[devices - 1].usd_per_hour if offer.capacity else None


def _key(row: dict[str, Any]) -> tuple[str, str, int]:
    return row["instance"], row["node_type"], row["devices"]


def _place(one: Candidate) -> tuple[str, str, int]:
    return one.instance, one.node_type, one.devices


def _option(row: dict[str, Any]) -> Option:
    market: Market = row["instance"]
    devices, of_node = row["devices"], row["instance_devices"]
    nodes = Nodes(
        node_type=row["node_type"],
        market=market,
        count=max(devices // of_node, 1),
        batch_size=row["batch_size"] * min(devices, of_node),
        devices=devices if devices < of_node else None,
    )
    step_time_s = Span(value=row["step_s"], low=row["low_s"], high=row["high_s"])
    time_s = step_time_s.times(row["iterations"])
    return Option(
        nodes=(nodes,),
        step_time_s=step_time_s,
        time_s=time_s,
        cost_usd=time_s.times(row["usd_per_hour"] / 3600),
    )


def _relaxations(ranked: Recommended, question: Question) -> Iterator[str]:
    """Yield what each limit has to be with the others kept; else all of them, for the cheapest.

    Where no time is known, what nobody measured.
    """
    known = [one for one in ranked.ranking if one.time_s is not None]
    if not known:
        yield ranked.ranking[0].obstacle or "measure its operations"
        return
    needs = [_needs(one) for one in known]
    asked = {
        "--max-hours": question.max_hours,
        "--budget-usd": question.budget_usd,
        "--max-usd-per-hour": question.max_usd_per_hour,
    }
    limits = {name: limit for name, limit in asked.items() if limit is not None}
    alone = False
    for name in limits:
        kept = {other: limit for other, limit in limits.items() if other != name}
        within = [one for one in needs if all(one[other] <= kept[other] for other in kept)]
        if within:
            alone = True
            yield f"{name} {min(one[name] for one in within):.4g}"
    if not alone:
        least = min(needs, key=lambda one: one["--budget-usd"])
        exceeded = (name for name, limit in limits.items() if least[name] > limit)
        yield " ".join(f"{name} {least[name]:.4g}" for name in exceeded)


def _needs(one: Candidate) -> Mapping[str, float]:
    """Return what a candidate needs of each limit, by the option that sets it."""
    assert one.time_s is not None and one.cost_usd is not None
    return {
        "--max-hours": one.time_s / 3600,
        "--budget-usd": one.cost_usd,
        "--max-usd-per-hour": one.usd_per_hour,
    }


def advising(fit: fitted.FittedCeer) -> CeerAdvising:
    """Return a fitted system as one that can be asked."""
    return CeerAdvising(fit.model, partial(extracted, framework=fit.framework))
