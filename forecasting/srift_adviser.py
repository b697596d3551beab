"""Srift as a system that recommends (section 4.4), with CAP and TAP beside it (5.2)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import get_args

from forecasting.advice import Advice, Nodes, Offer, Option, Question, Span
from models.srift import space
from models.srift.job import Job
from models.srift.optimizer import Answer, optimize
from models.srift.pareto import pareto_front
from models.srift.performance import Configuration, Performance
from models.srift.policies import Policy, policy
from models.srift.predictor import Srift
from models.srift.probed import Network, Speed
from warehouse.records import BadInput


@dataclass(frozen=True)
class SriftAdvising:
    """A fitted Srift that can be asked."""

    model: Srift

    def advise(self, question: Question, offers: Sequence[Offer]) -> Advice:
        """Search every configuration of the offers for the best one.

        Raises:
            BadInput: as `forecasting.advice.Advising`.
        """
        performance = self._performance(question, offers)
        on_offer, job = [_offer(one) for one in offers], _job(question)
        answer = optimize(performance, on_offer, job)
        _refuse_what_fits_nowhere(answer, job)
        found = [one for one in (answer.choice, *answer.alternatives) if one is not None]
        options = [
            self._option(performance, on_offer, one.configuration, question) for one in found
        ]
        return Advice(
            choice=options[0] if options else None,
            alternatives=tuple(options[1:]),
            policies={
                which: None
                if (taken := policy(which, performance, on_offer, job.global_batch)) is None
                else self._option(performance, on_offer, taken, question)
                for which in get_args(Policy)
            },
            relaxations=tuple(one.text for one in answer.relaxations),
            searched=f"{answer.configurations:,} configurations, {answer.simulated:,} simulated",
        )

    def front(self, question: Question, offers: Sequence[Offer]) -> tuple[Option, ...]:
        """Search every configuration of the offers for the Pareto front of time against cost.

        Raises:
            BadInput: as `forecasting.advice.Advising`.
        """
        performance = self._performance(question, offers)
        on_offer = [_offer(one) for one in offers]
        found = pareto_front(performance, on_offer, _job(question))
        return tuple(
            self._option(performance, on_offer, one.configuration, question) for one in found
        )

    def parameters_json(self) -> str:
        """Return the fitted parameters."""
        return self.model.parameters_json()

    def _performance(self, question: Question, offers: Sequence[Offer]) -> Performance:
        network, link_mbps = self._network(question)
        performance = self.model.performance(network, link_mbps)
        self.model.refuse_unprofiled(
            performance, [one.price.node_type for one in offers], link_mbps
        )
        return performance

    def _option(
        self,
        performance: Performance,
        offers: Sequence[space.Offer],
        configuration: Configuration,
        question: Question,
    ) -> Option:
        prices = {(one.node_type, one.market): one.usd_per_hour for one in offers}
        groups = configuration.groups
        usd_per_hour = sum(one.count * prices[one.node_type, one.market] for one in groups)
        value, low, high = self.model.interval(performance, configuration)
        step_time_s = Span(value=value, low=low, high=high)
        time_s = step_time_s.times(question.iterations)
        return Option(
            nodes=tuple(Nodes(**one.model_dump()) for one in groups),
            step_time_s=step_time_s,
            time_s=time_s,
            cost_usd=time_s.times(usd_per_hour / 3600),
        )

    def _network(self, question: Question) -> tuple[Network, Speed]:
        """Return what is asked about; where only one image size or speed was profiled, that."""
        mine = self.model.profiled(question.dnn, question.image_size)
        sizes, speeds = ({one.image_size for one in mine}, {one.link_mbps for one in mine})
        if len(sizes) > 1:
            raise BadInput(
                f"{question.dnn} was profiled at {' and '.join(map(str, sorted(sizes)))} px: "
                "choose one with --image-size"
            )
        if question.link_mbps is None and len(speeds) > 1:
            named = ", ".join(sorted("unshaped" if one is None else f"{one:g}" for one in speeds))
            raise BadInput(
                f"links of several speeds were probed ({named}): choose one with --link-mbps"
            )
        return Network(question.dnn, *sizes), question.link_mbps or next(iter(speeds))


def _job(question: Question) -> Job:
    hours = question.max_hours
    return Job(
        global_batch=question.global_batch,
        iterations=question.iterations,
        minimize=question.minimize,
        deadline_s=None if hours is None else 3600 * hours,
        budget_usd=question.budget_usd,
        usd_per_hour=question.max_usd_per_hour,
    )


def _offer(one: Offer) -> space.Offer:
    price = one.price
    return space.Offer(
        node_type=price.node_type,
        market=price.market,
        usd_per_hour=price.usd_per_hour,
        capacity=one.capacity,
    )


def _refuse_what_fits_nowhere(answer: Answer, job: Job) -> None:
    nowhere = [
        one.text for one in answer.relaxations if one.constraint in ("capacity", "global_batch")
    ]
    if nowhere:
        raise BadInput(f"a global batch of {job.global_batch} fits nowhere: {' or '.join(nowhere)}")
