"""What Ceer, and rules of thumb, would have rented, judged by what was measured (Figs. 9 to 12)."""

from collections.abc import Mapping, Sequence
from math import isinf

import polars as pl

from forecasting.ceer_study import Measured, usd_per_hour
from models.ceer.job import epochs
from models.ceer.objectives import Objective, scenarios
from models.ceer.offers import Offer, market_prices, priced
from models.ceer.recommendation import Candidate, recommend, regrets
from profilers.clusters.node_types import node_types
from reports.html_table import Cell, table
from reports.wording import DASH, percent

_SAID = (
    "<p>An epoch of 1.2 million samples on k nodes of a type, at k times its price. Budgets are "
    "the median price an hour of all offers, and the median of what epochs are forecast to cost; "
    "at market prices a share of a core costs the same whatever its instruction set. A choice's "
    "<em>regret</em> is by how much it is above the best that was measured; <em>too dear</em>: it "
    "exceeds the budget.</p>"
)
_HEAD = ("scenario", "DNN", "choice", "best", "regret", "of the cheapest", "of the most powerful")


def section(measured: Measured) -> str:
    """Return a table of choices for each DNN of the test set; nothing where nodes have no price."""
    prices = usd_per_hour(measured)
    if not measured.unseen or set(prices) != set(measured.operations["node_type"]):
        return ""
    whole = pl.col("without").list.len() == 0
    steps = measured.forecasts.filter(whole, pl.col("step_s").is_not_null())
    body = [
        line
        for one in steps.partition_by("dnn", "image_size", "batch_size", maintain_order=True)
        for line in _lines(one, prices)
    ]
    return f"<h2>What to rent for unseen DNNs</h2>{_SAID}{table(_HEAD, sorted(body, key=_order))}"


def _lines(steps: pl.DataFrame, prices: Mapping[str, float]) -> list[list[Cell]]:
    """Return the lines of a DNN, one for each scenario."""
    most = steps["devices"].max()
    assert isinstance(most, int)
    bought = market_prices(prices, most)
    hourly = pl.Series([one.usd_per_hour for one in bought]).median()
    cost = _priced(steps, "step_s", bought)["cost_usd"].median()
    assert isinstance(hourly, float) and isinstance(cost, float)
    found = []
    for objective in scenarios(hourly, cost).values():
        at_market = objective.name == "market_prices"
        offers = market_prices(_by_share(prices), most) if at_market else bought
        found.append(_line(steps, offers, objective))
    return found


def _line(steps: pl.DataFrame, offers: Sequence[Offer], objective: Objective) -> list[Cell]:
    recommended = recommend(_priced(steps, "step_s", offers), objective)
    truth = _priced(steps, "measured_s", offers)
    best = recommend(truth, objective).choice
    names = objective.name.replace("_", " "), str(steps["dnn"][0]), _named(recommended.choice)
    regretted = regrets(recommended, truth).values()
    return [
        *(Cell(name, is_number=False) for name in (*names, _named(best))),
        *(Cell(_regret(one)) for one in regretted),
    ]


def _priced(steps: pl.DataFrame, column: str, offers: Sequence[Offer]) -> pl.DataFrame:
    """Return what epochs take and cost, from the step times of a column."""
    return priced(epochs(steps.with_columns(step_s=pl.col(column))), offers)


def _by_share(prices: Mapping[str, float]) -> Mapping[str, float]:
    """Return what node types cost if the dearest keeps its price, and others have it by share."""
    known = node_types()
    shares = {name: known[name].cpu_share or 1.0 for name in prices}
    dearest = max(prices, key=lambda name: (prices[name], name))
    return {name: prices[dearest] * part / shares[dearest] for name, part in shares.items()}


def _named(choice: Candidate | None) -> str:
    return DASH if choice is None else f"{choice.devices} {choice.node_type}"


def _regret(value: float | None) -> str:
    if value is not None and isinf(value):
        return "too dear"
    return percent(None if value is None else 100 * value)


def _order(line: Sequence[Cell]) -> int:
    return list(scenarios()).index(line[0].text.replace(" ", "_"))
