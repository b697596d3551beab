"""Srift asked which nodes to rent (section 4.4), with CAP and TAP beside it (5.2)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import get_args

from models.choosing.advice import Advice, Question
from models.choosing.limits import Job
from models.choosing.offers import NodeOffer
from models.choosing.options import Nodes, Option, Span, option
from models.srift.forecast import usd_per_hour
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

    def advise(self, question: Question, offers: Sequence[NodeOffer]) -> Advice:
        """Search every configuration of the offers for the best one.

        Raises:
            BadInput: as `models.choosing.advice.Advising`.
        """
        job = question.job
        performance = self._performance(question, offers)
        answer = optimize(performance, offers, job)
        _check_fits(answer, job)

        def shown(configuration: Configuration | None) -> Option | None:
            if configuration is None:
                return None
            return self._option(performance, offers, configuration, job)

        choice = answer.choice
        return Advice(
            choice=None if choice is None else shown(choice.configuration),
            alternatives=tuple(
                self._option(performance, offers, one.configuration, job)
                for one in answer.alternatives
            ),
            policies={
                which: shown(policy(which, performance, offers, job.global_batch))
                for which in get_args(Policy)
            },
            relaxations=tuple(one.text for one in answer.relaxations),
            searched=f"{answer.configurations:,} configurations, {answer.simulated:,} simulated",
        )

    def front(self, question: Question, offers: Sequence[NodeOffer]) -> tuple[Option, ...]:
        """Search every configuration of the offers for the Pareto front of time against cost.

        Raises:
            BadInput: as `models.choosing.advice.Advising`.
        """
        performance = self._performance(question, offers)
        found = pareto_front(performance, offers, question.job)
        return tuple(
            self._option(performance, offers, one.configuration, question.job) for one in found
        )

    def parameters_json(self) -> str:
        """Return the fitted parameters."""
        return self.model.parameters_json()

    def _performance(self, question: Question, offers: Sequence[NodeOffer]) -> Performance:
        network, link_mbps = self._network(question)
        performance = self.model.performance(network, link_mbps)
        self.model.check_profiled(performance, [one.node_type for one in offers], link_mbps)
        return performance

    def _option(
        self,
        performance: Performance,
        offers: Sequence[NodeOffer],
        configuration: Configuration,
        job: Job,
    ) -> Option:
        """Return what the search expects of a configuration, with its interval."""
        value, low, high = self.model.interval(performance, configuration)
        return option(
            [Nodes(**one.model_dump()) for one in configuration.groups],
            Span(value=value, low=low, high=high),
            job.iterations,
            usd_per_hour(offers, configuration),
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
        link_mbps = question.link_of(speeds, "links of several speeds were probed")
        return Network(question.dnn, *sizes), link_mbps


def _check_fits(answer: Answer, job: Job) -> None:
    """Refuse a global batch that fits on no nodes on offer."""
    nowhere = [
        one.text for one in answer.relaxations if one.constraint in ("capacity", "global_batch")
    ]
    if nowhere:
        raise BadInput(f"a global batch of {job.global_batch} fits nowhere: {' or '.join(nowhere)}")
