"""Timelines of a study's scenarios: what was simulated of a fit, and what was measured."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

from forecasting.chosen import asking_of
from forecasting.resting import rested_in
from models.async_sgd import timeline
from models.async_sgd.predictor import AsyncSGD
from models.async_sgd.synthetic import synthesise
from models.async_sgd.systems import ASYNC_SGD
from models.async_sgd.throughput import steps_per_s
from models.async_sgd.timeline import Timeline
from models.async_sgd.workers import group_of_each
from studies import landed
from studies.curve import Curve
from studies.rounds import Round, rounds_of
from studies.study import Study
from warehouse.asks import Refusal
from warehouse.records import BadInput, Run, Scenario


@dataclass(frozen=True)
class Subject:
    """A scenario of a curve, in the newest round in which that curve has a profile."""

    round_: Round
    curve: Curve
    scenario: Scenario

    @property
    def profile(self) -> Run | None:
        """The run that profiled the curve."""
        needs = rested_in(self.round_, ASYNC_SGD, self.curve)
        traces = (need for need in needs if need.probe == "tf_trace")
        return next((self.round_.run_of(need) for need in traces), None)

    @property
    def measurement(self) -> Run | None:
        """The run that measured the scenario, None if none has."""
        measured = self.round_.runs_of("tf_throughput").items()
        return next((run for need, run in measured if need.scenario == self.scenario), None)


def find(study: Study, wanted: str, runs: Iterable[Run]) -> Subject:
    """Return the scenario of a study that has this label or id.

    Raises:
        BadInput: nothing of the study has landed, no scenario or several are called that, it is not
            of asynchronous SGD, or its curve has no profile yet.
    """
    rounds = rounds_of(study, asking_of(study), runs)
    rounds.sort(key=lambda one: max(run.started_at for run in one.runs), reverse=True)
    if not rounds:
        raise BadInput(f"nothing of study {study.name} has landed yet; run it first")
    known = {
        scenario: None
        for backend in dict.fromkeys(one.backend for one in rounds)
        for curve in study.curves
        for scenario in curve.scenarios(backend)
    }
    scenario = _named(wanted, list(known), study)
    if isinstance(refused := ASYNC_SGD.rests_on(scenario), Refusal):
        raise BadInput(
            f"{scenario.label} has no timeline: {ASYNC_SGD.name} does not predict it: "
            f"{refused.reason}"
        )
    for round_ in rounds:
        for curve in round_.study.curves:
            needed = rested_in(round_, ASYNC_SGD, curve)
            if scenario in curve.scenarios(round_.backend) and all(map(round_.run_of, needed)):
                return Subject(round_, curve, scenario)
    raise BadInput(
        f"{scenario.label}: study {study.name} has no profile of it yet; "
        "`stepcast run` makes one first"
    )


def simulated(model: AsyncSGD, scenario: Scenario, steps: int) -> tuple[Timeline, float]:
    """Return steps of a simulation after its warm-up, and its throughput in steps/s."""
    trace = synthesise(model, scenario, record=True)
    skip = model.parameters.settings.warm_up_steps
    graphs = [group.graph for group in group_of_each(model.simulation(scenario, 0))]
    shown = timeline.simulated(graphs, trace, skip=skip, count=steps)
    return shown, steps_per_s(trace, skip)


def measured(
    model: AsyncSGD, subject: Subject, landing: Path, steps: int
) -> tuple[Timeline, str] | None:
    """Return what was measured: of one worker its traced steps, of several their starts and ends.

    A title says which.

    None where the scenario has not been measured yet.
    """
    if subject.scenario == model.parameters.scenario:
        return _traced(model, subject, landing, steps)
    run = subject.measurement
    if run is None or "step" not in (tables := landed.tables(landing, run)):
        return None
    return timeline.measured(tables["step"], steps), "measured"


def _traced(model: AsyncSGD, subject: Subject, landing: Path, steps: int) -> tuple[Timeline, str]:
    assert subject.profile is not None
    tables = landed.tables(landing, subject.profile)
    (group,) = model.simulation(subject.scenario, 0)
    link = group.options
    assert isinstance(link.downlink_Bps, float) and isinstance(link.uplink_Bps, float)
    alone = timeline.traced(
        tables["operation"],
        tables["edge"],
        tables["timing"],
        tables["step"],
        tables.get("stream"),
        downlink_Bps=link.downlink_Bps,
        uplink_Bps=link.uplink_Bps,
    )
    gap_s = model.parameters.profiled[0].client_gap_s
    whole = timeline.one_after_the_other(alone, gap_s=gap_s, count=steps)
    return whole, "traced in the profile, one after the other"


def _named(wanted: str, known: Sequence[Scenario], study: Study) -> Scenario:
    found = [one for one in known if wanted in (one.label, one.scenario_id)]
    if len(found) == 1:
        return found[0]
    if found:
        ids = ", ".join(one.scenario_id for one in found)
        raise BadInput(f"study {study.name} has {len(found)} scenarios {wanted!r}; name one: {ids}")
    labels = list(dict.fromkeys(one.label for one in known))
    near = get_close_matches(wanted, labels, n=3, cutoff=0.3) or labels[:3]
    quoted = ", ".join(f"{label!r}" for label in near)
    raise BadInput(f"study {study.name} has no scenario {wanted!r}; near are {quoted}")
