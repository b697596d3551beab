"""Ceer asked which nodes to rent (section IV-D), with its rules of thumb beside it (V)."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import polars as pl

from models.ceer.decisive import decisive_operations
from models.ceer.fit import FittedCeer
from models.ceer.offers import usd_per_hour
from models.ceer.operations import NetworkOperations, operations_of_graph
from models.ceer.predictor import Ceer
from models.ceer.recommendation import (
    InstanceCandidate,
    InstanceRanking,
    Objective,
    candidate,
    rank_candidates,
)
from models.choice.advice import Advice, AdviceRequest
from models.choice.limits import (
    OPTIONS,
    VALUES,
    Relaxation,
    least_of,
    needed_relaxations,
    relaxations,
)
from models.choice.offers import NodeAllocation, NodeOffer, Option, Span, option, pareto_front
from models.inputs import refuse_unknown_networks
from networks.extraction import extract_steps
from networks.operation_graph import OperationGraph
from warehouse.records import BadInput

_ALTERNATIVES = 3
_DECISIVE = 3  # types of operations that are named


@dataclass(frozen=True)
class CeerAdviser:
    """A fitted Ceer that can be asked.

    `extract` returns the graphs of a DNN at several batch sizes and one size of images.
    """

    model: Ceer
    extract: Callable[[str, Sequence[int], int], Sequence[OperationGraph]] = field(repr=False)

    def advise(self, question: AdviceRequest, offers: Sequence[NodeOffer]) -> Advice:
        """Rank every number of devices of every offer that was measured.

        Raises:
            BadInput: as `models.choice.advice.FittedAdviser`.
        """
        options = self._options(question, offers)
        found = _ranked(options, question)
        feasible = found.feasible
        chosen = [one for best in feasible if (one := options[best]) is not None]
        return Advice(
            choice=chosen[0] if chosen else None,
            alternatives=tuple(chosen[1 : 1 + _ALTERNATIVES]),
            policies={
                name: None if one is None else options[one]
                for name, one in found.strategies.items()
            },
            relaxations=() if chosen else tuple(_relaxations(found, options, question)),
            searched=f"{len(options)} offers{self._why(question, feasible)}",
        )

    def front(self, question: AdviceRequest, offers: Sequence[NodeOffer]) -> tuple[Option, ...]:
        """Return what none of the offers, with any measured number of devices, dominates.

        Raises:
            BadInput: as `models.choice.advice.FittedAdviser`.
        """
        options = self._options(question, offers)
        within = set(_ranked(options, question).feasible)
        known = [one for place, one in options.items() if place in within and one is not None]
        return tuple(pareto_front(known, key=lambda one: one.outcome[:2]))

    def parameters_json(self) -> str:
        """Return the fitted parameters."""
        return self.model.parameters_json()

    def _options(
        self, question: AdviceRequest, offers: Sequence[NodeOffer]
    ) -> dict[InstanceCandidate, Option | None]:
        """Return each measured number of devices of each offer; None: its time is not known.

        Raises:
            BadInput: the batch is a multiple of none of these numbers.
        """
        found = dict(self._priced(question, offers))
        if not found:
            measured = sorted({overhead.devices for overhead in self.model.parameters.overheads})
            raise BadInput(
                f"a global batch of {question.global_batch} fits nowhere: expected a multiple of a "
                f"number of devices on offer whose steps were measured ({measured}); change "
                "--global-batch or --capacity"
            )
        return found

    def _priced(
        self, question: AdviceRequest, offers: Sequence[NodeOffer]
    ) -> Iterator[tuple[InstanceCandidate, Option | None]]:
        """Yield what each number of devices of each offer takes and costs."""
        objective = _objective(question)
        places = list(self._places(question, offers))
        networks = self._networks(question, [devices for _, devices, _, _ in places])
        for (offer, devices, link_mbps, hourly), network in zip(places, networks, strict=True):
            batch_size = question.global_batch // devices
            (step,) = (
                self.model.predict(network, [offer.node_type], devices=[devices])
                .filter(pl.col("link_mbps").eq_missing(link_mbps))
                .to_dicts()
            )
            known = None
            if step["step_s"] is not None:
                span = Span(value=step["step_s"], low=step["low_s"], high=step["high_s"])
                nodes = _nodes(offer, devices, batch_size)
                known = option([nodes], span, question.iterations, hourly)
            place = candidate(
                objective,
                instance=offer.market,
                node_type=offer.node_type,
                devices=devices,
                link_mbps=link_mbps,
                usd_per_hour=hourly,
                time_s=None if known is None else known.outcome.time_s,
                cost_usd=None if known is None else known.outcome.cost_usd,
                unseen=step["unseen"],
            )
            yield place, known

    def _places(
        self, question: AdviceRequest, offers: Sequence[NodeOffer]
    ) -> Iterator[tuple[NodeOffer, int, float | None, float]]:
        """Yield offer, devices, link and price of what was measured and can take the batch."""
        setups = self.model.parameters.overheads
        link_mbps = question.link_of(
            {setup.link_mbps for setup in setups if setup.devices > 1},
            "steps on links of several speeds were measured",
        )
        for offer in offers:
            mine = [setup for setup in setups if setup.node_type == offer.node_type]
            if not mine:
                raise BadInput(
                    f"node type {offer.node_type!r} has no profiled operations and steps, only "
                    f"{', '.join(self.model.node_types)} have; list it in a study, `stepcast run`"
                )
            for one in mine:
                divided = question.global_batch % one.devices == 0
                there = one.devices == 1 or one.link_mbps == link_mbps
                hourly = usd_per_hour(offer, one.devices)
                if divided and there and hourly is not None:
                    yield offer, one.devices, one.link_mbps, hourly

    def _networks(self, question: AdviceRequest, devices: Sequence[int]) -> list[NetworkOperations]:
        """Return the network at its part of the global batch on each number of devices."""
        if question.image_size is None:
            raise BadInput("ceer predicts any image size: say which with --image-size")
        batch_sizes = list(dict.fromkeys(question.global_batch // device for device in devices))
        graphs = self.extract(question.dnn, batch_sizes, question.image_size)
        known = dict(zip(batch_sizes, map(operations_of_graph, graphs), strict=True))
        return [known[question.global_batch // device] for device in devices]

    def _why(self, question: AdviceRequest, feasible: Sequence[InstanceCandidate]) -> str:
        """Say what decides between the best and the next best."""
        if len(feasible) < 2:
            return ""
        choice, other = feasible[:2]
        network, other_network = self._networks(question, [choice.devices, other.devices])
        types = decisive_operations(
            self.model,
            network,
            *(choice, other),
            samples=question.iterations * question.global_batch,
            by=question.minimize,
            other_network=other_network,
        ).head(_DECISIVE)
        said = ", ".join(
            f"{row['type']} {_difference(row, question.minimize)}" for row in types.to_dicts()
        )
        return f"; decisive against {other.devices} {other.node_type}: {said}"


def _difference(one: Mapping[str, Any], by: str) -> str:
    """Return by how much a type of operations makes the choice sooner or cheaper, below 0 so."""
    less = one["difference_usd"] if by == "cost" else one["difference_s"] / 3600
    sign = "−" if less < 0 else "+"
    return f"{sign}${abs(less):.4g}" if by == "cost" else f"{sign}{abs(less):.3g} h"


def _objective(question: AdviceRequest) -> Objective:
    return Objective(question.minimize, VALUES[question.minimize], question.job)


def _ranked(
    options: Mapping[InstanceCandidate, Option | None], question: AdviceRequest
) -> InstanceRanking:
    return rank_candidates(list(options), _objective(question))


def _nodes(offer: NodeOffer, devices: int, batch_size: int) -> NodeAllocation:
    """Return the nodes that have so many devices, each of which has that batch."""
    return NodeAllocation(
        node_type=offer.node_type,
        market=offer.market,
        count=max(devices // offer.devices, 1),
        batch_size=batch_size * min(devices, offer.devices),
        devices=devices if devices < offer.devices else None,
    )


def _relaxations(
    found: InstanceRanking,
    options: Mapping[InstanceCandidate, Option | None],
    question: AdviceRequest,
) -> Iterator[str]:
    """Yield what each limit has to be with the others kept; else all of them, for the cheapest.

    Where no time is known, what nobody measured.
    """
    known = [one for place in found.ranking if (one := options[place]) is not None]
    if not known:
        yield found.ranking[0].obstacle or "measure its operations"
        return
    if alone := relaxations(question.job, least_of(known)):
        yield from map(_said, alone)
    else:
        cheapest = min(known, key=lambda one: one.outcome.cost_usd)
        yield " ".join(map(_said, needed_relaxations(question.job, cheapest)))


def _said(relaxation: Relaxation[Option]) -> str:
    name, unit = OPTIONS[relaxation.constraint]
    return f"{name} {relaxation.needed * unit:.4g}"


def ceer_adviser(fit: FittedCeer) -> CeerAdviser:
    """Return a fitted system as one that can be asked."""
    return CeerAdviser(
        fit.model, partial(refuse_unknown_networks(extract_steps), framework=fit.framework)
    )
