"""The model of asynchronous SGD fitted to the landed profiles of a round."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from forecasting.fits import fit_or_load, landed_tables
from forecasting.resting import rested_on
from models.async_sgd.predictor import AsyncSGD
from models.async_sgd.systems import ASYNC_SGD
from studies.curve import Curve
from studies.parts import Part
from studies.rounds import Round
from warehouse.records import Run
from warehouse.warehouse import Warehouse


class FittedModels(Mapping[Part, AsyncSGD]):
    """A model of each profile of a round, fitted to what its forecasts were fitted to.

    Where curves share a profile, the model knows the links of all of them. Fitting takes seconds,
    so a model is fitted when it is first asked for, or loaded if `warehouse` keeps it.
    """

    def __init__(self, round_: Round, landing: Path, warehouse: Warehouse | None = None) -> None:
        self._round, self._landing, self._warehouse = round_, landing, warehouse
        self._fitted: dict[Part, AsyncSGD | None] = dict.fromkeys(round_.runs_of("tf_trace"))
        self._mixed: dict[tuple[Part, ...], AsyncSGD] = {}

    def __getitem__(self, part: Part) -> AsyncSGD:
        """Return the model of a profile."""
        model = self._fitted[part]
        if model is None:
            model = self._fitted[part] = self._fit([part])
        return model

    def __iter__(self) -> Iterator[Part]:
        """Iterate over the profiles, in the order of the study."""
        return iter(self._fitted)

    def __len__(self) -> int:
        """Return how many profiles have landed."""
        return len(self._fitted)

    def profiles_of(self, curve: Curve) -> tuple[Part, ...]:
        """Return the profiles of a curve, one for each type of its workers; those that landed."""
        profiled = [one.profiled(self._round.backend) for one in curve.of_each_type()]
        return tuple(part for part in self if part.scenario in profiled)

    def of_job(self, curve: Curve) -> AsyncSGD | None:
        """Return the model of a curve, fitted to all its profiles; None if one has not landed."""
        profiles = self.profiles_of(curve)
        if len(profiles) < len(set(curve.worker)):
            return None
        if len(profiles) == 1:
            return self[profiles[0]]
        if profiles not in self._mixed:
            self._mixed[profiles] = self._fit(profiles)
        return self._mixed[profiles]

    def _fit(self, profiles: Sequence[Part]) -> AsyncSGD:
        runs = _seen(profiles, self._round)
        tables = landed_tables(ASYNC_SGD, runs, self._landing)
        model = fit_or_load(ASYNC_SGD, [run.run_id for run in runs], tables, self._warehouse)
        assert isinstance(model, AsyncSGD)
        return model


def _seen(profiles: Sequence[Part], round_: Round) -> list[Run]:
    backend = round_.backend
    scenarios = [part.scenario for part in profiles]
    parts = (
        part
        for asked in round_.study.curves
        for curve in asked.as_profiled()
        if curve.profiled(backend) in scenarios
        for part in rested_on(ASYNC_SGD, curve, round_.parts, backend)
    )
    found = (round_.run_of(part) for part in dict.fromkeys(parts))
    return [run for run in found if run is not None]
