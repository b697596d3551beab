"""Srift asked which nodes to rent (section 4.4), with CAP and TAP beside it (5.2)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import get_args

from models.choice.advice import Advice, AdviceRequest
from models.choice.limits import Job
from models.choice.offers import NodeAllocation, NodeOffer, Option, Span, option
from models.srift.optimizer import OptimizerResult, optimize, pareto_front, usd_per_hour
from models.srift.performance import Configuration, Performance
from models.srift.policies import Policy, choose_by_policy
from models.srift.predictor import Srift
from models.srift.profiles import NetworkKey, Speed
from warehouse.records import BadInput


@dataclass(frozen=True)
class SriftAdviser:
    """A fitted Srift that can be asked."""

    model: Srift

    def advise(self, question: AdviceRequest, offers: Sequence[NodeOffer]) -> Advice:
        """Search every configuration of the offers for the best one.

        Raises:
            BadInput: as `models.choice.advice.FittedAdviser`.
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
                self._option(performance, offers, alternative.configuration, job)
                for alternative in answer.alternatives
            ),
            policies={
                which: shown(choose_by_policy(which, performance, offers, job.global_batch))
                for which in get_args(Policy)
            },
            relaxations=tuple(relaxation.text for relaxation in answer.relaxations),
            searched=f"{answer.configurations:,} configurations, {answer.simulated:,} simulated",
        )

    def front(self, question: AdviceRequest, offers: Sequence[NodeOffer]) -> tuple[Option, ...]:
        """Search every configuration of the offers for the Pareto front of time against cost.

        Raises:
            BadInput: as `models.choice.advice.FittedAdviser`.
        """
        performance = self._performance(question, offers)
        found = pareto_front(performance, offers, question.job)
        return tuple(
            self._option(performance, offers, one.configuration, question.job) for one in found
        )

    def parameters_json(self) -> str:
        """Return the fitted parameters."""
        return self.model.parameters_json()

    def _performance(self, question: AdviceRequest, offers: Sequence[NodeOffer]) -> Performance:
        network, link_mbps = self._network(question)
        performance = self.model.performance(network, link_mbps)
        self.model.check_profiled(performance, [offer.node_type for offer in offers], link_mbps)
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
            [NodeAllocation(**group.model_dump()) for group in configuration.groups],
            Span(value=value, low=low, high=high),
            job.iterations,
            usd_per_hour(offers, configuration),
        )

    def _network(self, question: AdviceRequest) -> tuple[NetworkKey, Speed]:
        """Return what is asked about; where only one image size or speed was profiled, that."""
        mine = self.model.profiled(question.dnn, question.image_size)
        sizes, speeds = ({one.image_size for one in mine}, {one.link_mbps for one in mine})
        if len(sizes) > 1:
            raise BadInput(
                f"{question.dnn} was profiled at {' and '.join(map(str, sorted(sizes)))} px: "
                "choose one with --image-size"
            )
        link_mbps = question.link_of(speeds, "links of several speeds were probed")
        return NetworkKey(question.dnn, *sizes), link_mbps


def _check_fits(answer: OptimizerResult, job: Job) -> None:
    """Refuse a global batch that fits on no nodes on offer."""
    nowhere = [
        relaxation.text
        for relaxation in answer.relaxations
        if relaxation.constraint in ("capacity", "global_batch")
    ]
    if nowhere:
        raise BadInput(f"a global batch of {job.global_batch} fits nowhere: {' or '.join(nowhere)}")
