"""How far forecasts reach: as far as some were judged, else as far as steps were measured."""

from collections.abc import Callable, Iterator, Mapping, Sequence

from forecasting.asked.coordinates import coordinates
from forecasting.asked.near import Judged, amount, how_far, reach
from models.predictddl.observed import batch_of
from models.predictddl.systems import PREDICTDDL
from models.predictddl.work import ranks_of
from warehouse.records import BadInput, Scenario

METRIC = "step_time_s"
_LEAST_REACH = 2.0
"""Of one value, up and down: a factor."""


def check_near(scenario: Scenario, judged: Judged, measured: Sequence[Scenario]) -> None:
    """Refuse a scenario that is farther out than any whose forecast was judged.

    Where none was judged, or the size of the network is in no table, one is refused that is farther
    out than any whose steps were measured.

    Args:
        scenario: that is asked about.
        judged: what has been judged on the backend.
        measured: whose steps the fit saw, one at least.

    Raises:
        BadInput: it is; the message says what to measure.
    """
    if ranks_of(scenario) > 1 and not any(ranks_of(one) > 1 for one in measured):
        raise BadInput(
            f"{scenario.label}: no steps of several devices, so no exchange is known; `stepcast "
            "run` a study that lists some under train"
        )
    case = how_far(judged, PREDICTDDL.name, METRIC, scenario)
    far = case.far or ""
    if not far and not (case.nearest and "flops" in coordinates(scenario).numbers):
        far = "; ".join(_beyond(scenario, measured))
        far += "; list it under train of a study, and `stepcast run` it" if far else ""
    if far:
        raise BadInput(f"{scenario.label}: far out: {far}")


def _beyond(scenario: Scenario, measured: Sequence[Scenario]) -> Iterator[str]:
    for words, of in _BOUNDED.items():
        known = sorted({value for one in measured for value in of(one)})
        least, most = reach(known) or (known[0] / _LEAST_REACH, known[0] * _LEAST_REACH)
        for value in of(scenario):
            if not least <= value <= most:
                yield (
                    f"{value:,} {words}, where steps were measured from {known[0]:,} to "
                    f"{known[-1]:,}; first measure a scenario of "
                    f"{amount(least if value < least else most)} {words}"
                )


def _batches(scenario: Scenario) -> set[int]:
    return {batch_of(scenario, group) for group in scenario.worker_groups}


_BOUNDED: Mapping[str, Callable[[Scenario], set[int]]] = {
    "workers": lambda one: {one.strategy.workers},
    "images a batch": _batches,
    "pixels a side": lambda one: {one.workload.image_size},
}
