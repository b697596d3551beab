"""How long systems have others measure before they can answer for a batch of workloads (Fig. 13).

A workload is a network that is judged; batches take them in the order of the study. Runs count by
the clock, one after another; what serves several workloads counts once. Runs of Ernest's own are
counted as a plan expects them where the study has none.

Source: Assogba et al., PredictDDL, section IV-B5.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import polars as pl

from forecasting.chosen import systems_of
from forecasting.resting import resting
from models.ernest.systems import ERNEST
from models.system import System
from profilers.probe import Asked, Need
from profilers.probes import PROBES
from studies.rounds import Round
from warehouse.asks import Refusal
from warehouse.records import Scenario

COLUMNS = {
    "system": pl.String,
    "workloads": pl.Int64,
    "measuring_s": pl.Float64,
    "expected": pl.Boolean,
    "n": pl.Int64,
    "error_percent": pl.Float64,
}
"""Of a system and a number of workloads: seconds of runs that it rests on, whether a plan only
expects them, and its mean absolute error on the judged scenarios of these, n of them."""


@dataclass
class _Waited:
    """Seconds of runs, each counted once."""

    seconds: dict[object, float] = field(default_factory=dict)
    expected: bool = False


def waiting(round_: Round, judged: pl.DataFrame) -> pl.DataFrame:
    """Return `COLUMNS` for each system of a round, and Ernest, that says something.

    Args:
        round_: that has landed.
        judged: as `forecasting.findings.judged.judged_of` returns it.
    """
    by_network = _by_network(round_, judged)
    systems = dict.fromkeys((*systems_of(round_.study), ERNEST))
    rows = [
        row
        for system in systems
        for row in _of_system(system, round_, by_network, judged.filter(system=system.name))
    ]
    return pl.DataFrame(rows, schema=COLUMNS, orient="row")


def _by_network(round_: Round, judged: pl.DataFrame) -> Mapping[str, Sequence[int]]:
    """Return the places of judged curves of each network that was judged, as the study has them."""
    there = set(judged["dnn"])
    found: dict[str, list[int]] = {}
    for place, curve in enumerate(round_.study.curves):
        if curve.is_judged and not curve.is_reserve and curve.dnn in there:
            found.setdefault(curve.dnn, []).append(place)
    return found


def _of_system(
    system: System,
    round_: Round,
    by_network: Mapping[str, Sequence[int]],
    judged: pl.DataFrame,
) -> Iterator[tuple[str, int, float, bool, int, float | None]]:
    waited, errors = _Waited(), list[float]()
    for count, (dnn, places) in enumerate(by_network.items(), start=1):
        for place in places:
            _wait(system, round_, place, waited)
        errors += judged.filter(dnn=dnn)["error_percent"].abs().to_list()
        if waited.seconds:
            mean = sum(errors) / len(errors) if errors else None
            total_s = sum(waited.seconds.values())
            yield system.name, count, total_s, waited.expected, len(errors), mean


def _wait(system: System, round_: Round, place: int, waited: _Waited) -> None:
    """Add the runs that a system's forecasts of a curve rest on."""
    curve = round_.study.curves[place]
    for scenario, needs in resting(system, curve, round_.needs, round_.backend).items():
        if not isinstance(needs, Refusal) and needs:
            for need in needs:
                if run := round_.run_of(need):
                    took = run.ended_at - run.started_at
                    waited.seconds.setdefault(run.run_id, took.total_seconds())
        elif system.name == ERNEST.name:
            _expect(scenario, waited)


def _expect(scenario: Scenario, waited: _Waited) -> None:
    """Add Ernest's own runs of a scenario as a plan expects them."""
    asks = ERNEST.rests_on(scenario)
    if isinstance(asks, Refusal):
        return
    probe = PROBES["torch_throughput"]
    runs = tuple(ask.scenario for ask in asks)
    needs: list[Need] = list(probe.needs(Asked(own=runs), probe.settings()))
    waited.expected = waited.expected or bool(needs)
    for need in needs:
        waited.seconds.setdefault(need.scenario, need.expected_s)
        # Runs that share a start pay for it once.
        waited.seconds.setdefault(need.start or (need.scenario, "start"), need.start_s)
