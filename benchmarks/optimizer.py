"""How fast Srift's optimiser answers: the case studies of section 5.2, and a large catalogue."""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial

from benchmarks.child import best_of
from benchmarks.srift_profiles import CaseStudy, case, catalogue
from models.srift import iteration
from models.srift.optimizer import OptimizerResult, optimize
from warehouse.records import StepcastError

_AGREE = 1e-9


@dataclass(frozen=True)
class OptimizerReport:
    """Figures of one benchmark.

    `catalogue_configurations` is how many ways there are to divide the catalogue's global batch,
    counted before any is ruled out. Choices are in the order of the times.
    """

    case1_s: float
    case2_s: float
    case3_s: float
    catalogue_s: float
    catalogue_configurations: int
    choices: tuple[str, ...]

    def to_dict(self) -> dict[str, float]:
        """Return the figures by key."""
        return {key: value for key, value in asdict(self).items() if key != "choices"}


def measure(
    types: int = 40, capacity: int = 64, progress: Callable[[str], None] = lambda _: None
) -> OptimizerReport:
    """Time the three cases and a catalogue; every optimum is confirmed by the event simulator.

    Raises:
        StepcastError: the event simulator does not agree with an optimum.
    """
    cases = [case(1), case(2), case(3), catalogue(types, capacity)]
    times_s, answers = [], []
    for number, one in enumerate(cases, 1):
        progress(f"case {number}" if number < 4 else f"{types} types of {capacity} nodes")
        answers.append(confirm_answer(one))
        times_s.append(best_of(3, partial(answer, one)))
    return OptimizerReport(
        case1_s=times_s[0],
        case2_s=times_s[1],
        case3_s=times_s[2],
        catalogue_s=times_s[3],
        catalogue_configurations=answers[-1].configurations,
        choices=tuple(
            "none" if found.choice is None else found.choice.configuration.label
            for found in answers
        ),
    )


def answer(case: CaseStudy) -> OptimizerResult:
    """Search a case exhaustively."""
    return optimize(case.performance, case.offers, case.job, max_types=case.max_types)


def confirm_answer(case: CaseStudy) -> OptimizerResult:
    """Return the answer to a case whose choices the event simulator expects to take as long.

    Raises:
        StepcastError: it does not.
    """
    found = answer(case)
    for one in [found.choice, *found.alternatives]:
        if one is None:
            continue
        alone_s = iteration.simulate(case.performance, one.configuration).step_time_s
        if abs(alone_s / one.step_time_s - 1) > _AGREE:
            raise StepcastError(
                f"{one.configuration.label}: the search expects {one.step_time_s} s a step, the "
                f"event simulator {alone_s} s; this is a defect of the search"
            )
    return found
