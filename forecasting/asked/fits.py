"""The fits that forecasts rest on which somebody merely asks for: kept ones, or made now."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache, partial

from forecasting.asked.groups import Group
from forecasting.asked.history import History
from forecasting.asked.place import Place
from forecasting.asked.runs import VisibleRun
from forecasting.fits import record_of
from models.system import Fitted
from warehouse.ledger import FitRecord
from warehouse.records import BadInput


@dataclass(frozen=True)
class AskedFit:
    """A fitted system.

    Attributes:
        fit_id: as the ledger names it.
        fitted: returns what can be asked for forecasts; a kept fit is read when it is asked.
        fitted_at: when it was fitted.
        runs: that it saw, the newest first.
        record: what the ledger is to keep of it; None: it does already.
    """

    fit_id: str
    fitted: Callable[[], Fitted]
    fitted_at: datetime
    runs: tuple[VisibleRun, ...]
    record: FitRecord | None = field(default=None)


def made(
    group: Group, history: History, place: Place, say: Callable[[str], None]
) -> AskedFit | BadInput:
    """Return the fit that the history keeps for a group, else fit it; or why that fails."""
    system, tables = group.system, history.tables[group]
    if (kept := history.kept.get(group)) is not None:
        loaded = cache(partial(system.load, str(kept["parameters"]), tables))
        return AskedFit(str(kept["fit_id"]), loaded, kept["created_at"], group.runs)
    try:
        say(f"fit {system.name} to {len(group.runs)} runs")
        fitted = system.fit(tables)
    except BadInput as error:
        return error
    run_ids = _in_known_order(group.run_ids, history.fits[system.name])
    record = record_of(
        system, fitted, run_ids, tables, backend=place.backend, host_id=place.host_id
    )
    return AskedFit(record.fit_id, lambda: fitted, record.created_at, group.runs, record)


def _in_known_order(run_ids: Sequence[str], known: Sequence[Sequence[str]]) -> Sequence[str]:
    """Return runs in the order of a fit that saw them: the same fit again is then the same fit."""
    wanted = set(run_ids)
    return next((ids for ids in known if set(ids) == wanted), run_ids)
