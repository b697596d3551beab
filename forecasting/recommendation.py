"""From a question to an answer in the ledger, by every system that recommends."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Literal, cast

import polars as pl

from forecasting.fits import newest_kept_fit, record_of
from forecasting.history_scope import HostSelection, is_here, runs_for_fits
from models.ceer import advising as ceer_advising
from models.ceer.fit import PROBES
from models.ceer.systems import CEER as CEER_SYSTEM
from models.ceer.systems import CEER_PYTORCH as CEER_PYTORCH_SYSTEM
from models.choice.advice import Advice, AdviceRequest, FittedAdviser
from models.choice.offers import Markets, Option, offers, prices_in_one_region
from models.srift.advising import SriftAdviser
from models.srift.system import SRIFT as SRIFT_SYSTEM
from models.system import System
from networks import check
from warehouse import limits
from warehouse.home import code_version
from warehouse.records import Backend, BadInput, Price, Recommendation
from warehouse.warehouse import Warehouse

# The systems that recommend, by name: what each sees, and what makes its fits answer questions.
#
# Everything else is the same for all of them (`forecasting.recommending`).


@dataclass(frozen=True)
class Adviser:
    """A system that recommends.

    Attributes:
        system: that forecasts; a fit of it is one to all runs of `probes` that predictors see.
        framework: that trains.
        metric: what it forecasts of scenarios, by which its errors are shown.
        probes: whose profile runs it sees, all of one backend and host.
        of: makes a fit of the system one that can be asked.
    """

    system: System
    framework: Literal["tensorflow", "pytorch"]
    metric: str
    probes: tuple[str, ...]
    of: Callable[[Any], FittedAdviser]


SRIFT = Adviser(
    system=SRIFT_SYSTEM,
    framework="pytorch",
    metric="step_time_s",
    # torch_memory, where it was run, says which batches fit.
    probes=("links", "allreduce", "torch_memory", "torch_compute", "slowdown"),
    of=SriftAdviser,
)
CEER = Adviser(
    system=CEER_SYSTEM,
    framework="tensorflow",
    metric="step_time_s",
    probes=PROBES["tensorflow"],
    of=ceer_advising.ceer_adviser,
)
CEER_PYTORCH = replace(
    CEER,
    system=CEER_PYTORCH_SYSTEM,
    framework="pytorch",
    probes=PROBES["pytorch"],
)
ADVISERS: Mapping[str, Adviser] = {one.system.name: one for one in (SRIFT, CEER, CEER_PYTORCH)}


def adviser(system: str) -> Adviser:
    """Return the adviser of a system.

    Raises:
        BadInput: there is none.
    """
    if system not in ADVISERS:
        raise BadInput(f"no system {system!r} recommends; those that do are {', '.join(ADVISERS)}")
    return ADVISERS[system]


Say = Callable[[str], None]


@dataclass(frozen=True)
class Market:
    """What can be rented: how many nodes of each type, on which market, at the prices of when."""

    capacity: Mapping[str, int]
    market: Markets
    as_of: datetime


@dataclass(frozen=True)
class SearchRecommendation:
    """An answer, with what it rests on and how wrong its system has been.

    `place` is whose profile runs answered; `accuracy` the system's part of report.leaderboard on
    the same backend; `front` what more money buys (`FittedAdviser.front`), where that was asked.
    """

    advice: Advice
    prices: Sequence[Price]
    place: HostSelection
    fit_id: str
    recommendation_id: str
    accuracy: pl.DataFrame
    front: Sequence[Option] = ()

    @property
    def judged(self) -> int:
        """How many forecasts of the system were judged on the same backend."""
        return int(self.accuracy["n"].sum())


def recommend(
    warehouse: Warehouse,
    adviser: Adviser,
    question: AdviceRequest,
    market: Market,
    *,
    backend: Backend | None = None,
    with_front: bool = False,
    say: Say = lambda _: None,
) -> SearchRecommendation:
    """Ask a system which nodes to rent, and write the answer to the ledger.

    It is fitted to all profile runs of its probes on one backend and host: of those that have all
    node types on offer, this one; else that with the newest. A fit to the same runs that the ledger
    has is not made again.

    Args:
        warehouse: the history.
        adviser: the system.
        question: the job.
        market: what can be rented.
        backend: None: the one that was profiled.
        with_front: whether it is asked for the Pareto front too.
        say: told what takes long.

    Raises:
        BadInput: an unknown network, images too small for it, no price, no profile runs, or as
            `FittedAdviser.advise`.
    """
    try:
        check(question.dnn, question.image_size, adviser.framework)
    except ValueError as error:
        raise BadInput(str(error)) from None
    if not market.capacity or min(market.capacity.values()) < 1:
        raise BadInput("nothing to rent: expected at least one node type with 1 node or more")
    if (most := max(market.capacity.values())) > limits.NODES:
        raise BadInput(f"expected at most {limits.NODES:,} nodes of a type to rent, found {most:,}")
    prices = prices_in_one_region(
        warehouse.query("prices_as_of", as_of=market.as_of.isoformat()),
        market.capacity,
        market.market,
        market.as_of,
    )
    profiled = _profiled(warehouse, adviser, set(market.capacity), backend)
    on_offer = offers(prices, market.capacity, profiled.devices)
    fitted, fit_id = _fitted(warehouse, adviser, profiled, say)
    advice = fitted.advise(question, on_offer)
    front = fitted.front(question, on_offer) if with_front else ()
    record = Recommendation(
        system=adviser.system.name,
        backend=profiled.place.backend,
        job=question.model_dump(
            mode="json", include={"dnn", "image_size", "global_batch", "iterations", "link_mbps"}
        ),
        objective=question.minimize,
        constraints={
            "max_hours": question.max_hours,
            "budget_usd": question.budget_usd,
            "max_usd_per_hour": question.max_usd_per_hour,
            "capacity": dict(market.capacity),
            "market": market.market,
            "as_of": market.as_of.isoformat(),
        },
        choice=None if advice.choice is None else advice.choice.model_dump(mode="json"),
        alternatives=tuple(
            alternative.model_dump(mode="json") for alternative in advice.alternatives
        ),
        price_snapshot=warehouse.record_prices(prices),
        fit_ids=(fit_id,),
        code_version=code_version(),
        made_at=datetime.now(UTC),
    )
    board = warehouse.leaderboard().filter(
        system=adviser.system.name, backend=profiled.place.backend, metric=adviser.metric
    )
    written = warehouse.record_recommendation(record)
    return SearchRecommendation(advice, prices, profiled.place, fit_id, written, board, front)


@dataclass(frozen=True)
class _Profiled:
    place: HostSelection
    run_ids: tuple[str, ...]
    devices: Mapping[str, int]
    """Of a node of each type: accelerators, one where there are none."""


def _profiled(
    warehouse: Warehouse, adviser: Adviser, node_types: set[str], backend: Backend | None
) -> _Profiled:
    """Return the runs that a system sees: those of one place that has the node types."""
    runs = runs_for_fits(warehouse.visible("run")).filter(pl.col("probe").is_in(adviser.probes))
    if backend is not None:
        runs = runs.filter(backend=backend)
    if runs.is_empty():
        where = "" if backend is None else f" on backend {backend}"
        raise BadInput(
            f"{adviser.system.name} has no profile runs{where} ({', '.join(adviser.probes)}); list "
            "the network and node types in a study and `stepcast run STUDY.yaml`"
        )
    nodes = warehouse.visible("cluster_node", runs["run_id"].to_list())
    found = []
    for (on, host), mine in runs.group_by("backend", "host_id", maintain_order=True):
        run_ids = tuple(mine["run_id"].sort())
        there = nodes.filter(pl.col("run_id").is_in(run_ids)).group_by("node_type")
        counts = there.agg(pl.col("device_count").max().fill_null(0).clip(lower_bound=1))
        newest, devices = mine["started_at"].sort().last(), dict(counts.iter_rows())
        pair = cast(Backend, on), str(host)
        place = HostSelection(*pair, is_here(pair))
        profiled = _Profiled(place, run_ids, devices)
        found.append((node_types <= devices.keys(), place.is_here, newest, profiled))
    return max(found, key=lambda one: one[:3])[3]


def _fitted(
    warehouse: Warehouse, adviser: Adviser, profiled: _Profiled, say: Say
) -> tuple[FittedAdviser, str]:
    """Return the system as it was fitted to these runs, and the id of the fit."""
    system, run_ids = adviser.system, profiled.run_ids
    if (kept := newest_kept_fit(system, run_ids, None, warehouse)) is not None:
        return adviser.of(system.load(str(kept["parameters"]), {})), str(kept["fit_id"])
    say(f"fit {system.name} to {len(run_ids)} profile runs")
    tables = warehouse.visible_tables(system.tables, run_ids)
    fitted = system.fit(tables)
    place = profiled.place
    record = record_of(
        system, fitted, run_ids, tables, backend=place.backend, host_id=place.host_id
    )
    warehouse.record_fit(record)
    return adviser.of(fitted), record.fit_id
