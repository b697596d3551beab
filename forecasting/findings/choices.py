"""What Ceer, and rules of thumb, would have rented, judged by what was measured (Figs. 9 to 12)."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from forecasting.ceer_study import Measured, usd_per_hour
from models.ceer.job import epochs
from models.ceer.objectives import Objective, scenarios
from models.ceer.offers import Offer, market_prices, priced
from models.ceer.recommendation import Candidate, recommend, regrets
from profilers.clusters.node_types import node_types


@dataclass(frozen=True)
class Choice:
    """What is rented for an epoch of a DNN to an end, by forecast and by measurement.

    Attributes:
        objective: its name in `models.ceer.objectives`.
        dnn: that is trained.
        chosen: by Ceer; None: nothing.
        best: of what was measured; None: nothing.
        regrets: by how much the choices of Ceer, of the cheapest and of the most powerful offer are
            above the best, relatively; infinite where one exceeds the budget, None: there is none.
    """

    objective: str
    dnn: str
    chosen: Candidate | None
    best: Candidate | None
    regrets: tuple[float | None, ...]


def choices(measured: Measured) -> tuple[Choice, ...]:
    """Return the choices for each DNN of the test set, objective by objective.

    None where nodes have no price.
    """
    prices = usd_per_hour(measured)
    if not measured.unseen or set(prices) != set(measured.operations["node_type"]):
        return ()
    steps = measured.whole_forecasts.filter(pl.col("step_s").is_not_null())
    found = [
        choice
        for one in steps.partition_by("dnn", "image_size", "batch_size", maintain_order=True)
        for choice in _of_dnn(one, prices)
    ]
    order: list[str] = list(scenarios())
    return tuple(sorted(found, key=lambda choice: order.index(choice.objective)))


def _of_dnn(steps: pl.DataFrame, prices: Mapping[str, float]) -> Iterator[Choice]:
    most = steps["devices"].max()
    assert isinstance(most, int)
    bought = market_prices(prices, most)
    hourly = pl.Series([one.usd_per_hour for one in bought]).median()
    cost = _priced(steps, "step_s", bought)["cost_usd"].median()
    assert isinstance(hourly, float) and isinstance(cost, float)
    for objective in scenarios(hourly, cost).values():
        at_market = objective.name == "market_prices"
        offers = market_prices(_by_share(prices), most) if at_market else bought
        yield _choice(steps, offers, objective)


def _choice(steps: pl.DataFrame, offers: Sequence[Offer], objective: Objective) -> Choice:
    recommended = recommend(_priced(steps, "step_s", offers), objective)
    truth = _priced(steps, "measured_s", offers)
    return Choice(
        objective=objective.name,
        dnn=str(steps["dnn"][0]),
        chosen=recommended.choice,
        best=recommend(truth, objective).choice,
        regrets=tuple(regrets(recommended, truth).values()),
    )


def _priced(steps: pl.DataFrame, column: str, offers: Sequence[Offer]) -> pl.DataFrame:
    """Return what epochs take and cost, from the step times of a column."""
    return priced(epochs(steps.with_columns(step_s=pl.col(column))), offers)


def _by_share(prices: Mapping[str, float]) -> Mapping[str, float]:
    """Return what node types cost if the dearest keeps its price, and others have it by share."""
    known = node_types()
    shares = {name: known[name].cpu_share or 1.0 for name in prices}
    dearest = max(prices, key=lambda name: (prices[name], name))
    return {name: prices[dearest] * share / shares[dearest] for name, share in shares.items()}
