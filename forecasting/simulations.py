"""The model of asynchronous SGD fitted to the landed profiles of a round."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from forecasting.fits import fit_or_load, landed_tables
from forecasting.resting import rested_in
from models.async_sgd.predictor import AsyncSGD
from models.async_sgd.systems import ASYNC_SGD, ONE_SERVER
from profilers.probe import Need
from studies.curve import Curve
from studies.rounds import Round
from warehouse.records import Run
from warehouse.warehouse import Warehouse


class FittedModels(Mapping[Need, AsyncSGD]):
    """A model of each profile of a round, fitted to what its forecasts were fitted to.

    Where curves share a profile, the model knows the links of all of them. Fitting takes seconds,
    so a model is fitted when it is first asked for, or loaded if `warehouse` keeps it.
    """

    def __init__(self, round_: Round, landing: Path, warehouse: Warehouse | None = None) -> None:
        self._round, self._landing, self._warehouse = round_, landing, warehouse
        self._fitted: dict[Need, AsyncSGD | None] = dict.fromkeys(round_.runs_of("tf_trace"))
        self._mixed: dict[tuple[Need, ...], AsyncSGD] = {}

    def __getitem__(self, need: Need) -> AsyncSGD:
        """Return the model of a profile."""
        model = self._fitted[need]
        if model is None:
            model = self._fitted[need] = self._fit([need])
        return model

    def __iter__(self) -> Iterator[Need]:
        """Iterate over the profiles, in the order of the study."""
        return iter(self._fitted)

    def __len__(self) -> int:
        """Return how many profiles have landed."""
        return len(self._fitted)

    def profiles_of(self, curve: Curve) -> tuple[Need, ...]:
        """Return the profiles of a curve, one for each type of its workers; those that landed."""
        rests = rested_in(self._round, ASYNC_SGD, curve)
        return tuple(need for need in self if need in rests)

    def of_curve(self, curve: Curve) -> AsyncSGD | None:
        """Return the model of a curve, fitted to all its profiles; None if one has not landed."""
        profiles = self.profiles_of(curve)
        if len(profiles) < len(set(curve.worker)):
            return None
        if len(profiles) == 1:
            return self[profiles[0]]
        if profiles not in self._mixed:
            self._mixed[profiles] = self._fit(profiles)
        return self._mixed[profiles]

    def _fit(self, profiles: Sequence[Need]) -> AsyncSGD:
        runs = _seen(profiles, self._round)
        tables = landed_tables(ASYNC_SGD, runs, self._landing)
        model = fit_or_load(ASYNC_SGD, [run.run_id for run in runs], tables, self._warehouse)
        assert isinstance(model, AsyncSGD)
        return model


def _seen(profiles: Sequence[Need], round_: Round) -> list[Run]:
    """Return the runs of these profiles, and of links and contention of curves with them."""
    types = frozenset[str]().union(*(need.subject.worker_types for need in profiles))
    found: dict[Need, None] = {}
    for system in (ASYNC_SGD, ONE_SERVER):
        for curve in round_.study.curves:
            rests = rested_in(round_, system, curve)
            if set(profiles) & set(rests):
                found |= {
                    need: None
                    for need in rests
                    if need in profiles
                    or (need.probe != "tf_trace" and need.subject.worker_types <= types)
                }
    runs = (round_.run_of(need) for need in round_.needs if need in found)
    return [run for run in runs if run is not None]
