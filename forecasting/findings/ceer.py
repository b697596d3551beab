"""Figures of Ceer: several devices, DNNs that it has not seen, what it would rent."""

from collections.abc import Iterator, Mapping

import polars as pl

from forecasting.ceer_study import leave_out, usd_per_hour
from forecasting.findings.figure import Mark, MeasuredRound, PaperFigure
from models.ceer.classes import scaling
from models.choice.limits import Limits, Minimize
from models.choice.pro_rata import Instance, pro_rata, regrets
from profilers.clusters.node_types import node_types

IMAGENET_SAMPLES = 1_200_000
"""D of the paper (section V)."""


def devices(found: MeasuredRound) -> pl.DataFrame | None:
    """Return how much shorter epochs are on several devices than on one (Fig. 6)."""
    if found.ceer is None or (steps := found.ceer.fitted[1]).is_empty():
        return None
    several = scaling(steps).filter(pl.col("devices").max().over("dnn") > 1)
    return several.with_columns(ideal=1 / pl.col("devices")).sort("dnn", "node_type", "devices")


def unseen_steps(found: MeasuredRound) -> pl.DataFrame | None:
    """Return errors of steps of DNNs that were left out of fits: together, ablated, and each."""
    if found.ceer is None or not found.ceer.unseen:
        return None
    measured = found.ceer
    without = pl.col("without").list.join(" ")
    together_ = measured.forecasts.group_by(without, maintain_order=True)
    each = leave_out(measured.operations, measured.steps).group_by("dnn", maintain_order=True)
    return pl.concat(
        [
            *(_errors(f"test set, without {name}" if name else "test set", rows)
              for (name,), rows in together_),
            *(_errors(f"{dnn} by itself", rows) for (dnn,), rows in each),
        ]
    )  # fmt: skip


def _errors(what: str, judged: pl.DataFrame) -> pl.DataFrame:
    error_percent = 100 * pl.col("error")
    unknown = judged.filter(pl.col("error").is_null())
    types = sorted(set(unknown["unseen"].explode(empty_as_null=False)))
    return judged.select(
        left_out=pl.lit(what),
        absolute_percent=error_percent.abs().mean(),
        mean_percent=error_percent.mean(),
        largest_percent=error_percent.abs().max(),
        steps=error_percent.count(),
        not_known=pl.col("error").null_count(),
        because_of=pl.lit(", ".join(types)),
    )


def choices(found: MeasuredRound) -> pl.DataFrame | None:
    """Return what is rented for an epoch of each DNN of the test set, and by how much too dear.

    The paper's four scenarios (Figs. 9 to 12): the least time at an hourly budget, and on a total
    one; the least cost, and the same at market prices. None where nodes have no price.
    """
    if found.ceer is None or not (measured := found.ceer).unseen:
        return None
    prices = usd_per_hour(measured)
    if set(prices) != set(measured.operations["node_type"]):
        return None
    known = measured.whole_forecasts.filter(pl.col("step_s").is_not_null())
    rows = [
        row
        for part in known.partition_by("dnn", "image_size", "batch_size", maintain_order=True)
        for row in _choices(part, prices)
    ]
    return pl.DataFrame(rows) if rows else None


def _choices(steps: pl.DataFrame, prices: Mapping[str, float]) -> Iterator[dict[str, object]]:
    count = IMAGENET_SAMPLES / (pl.col("devices") * pl.col("batch_size"))
    epochs = steps.select(
        "node_type",
        "devices",
        predicted_s=pl.col("step_s") * count,
        measured_s=pl.col("measured_s") * count,
    )
    options = epochs.join(_offers(prices, steps), on=["node_type", "devices"])
    at_market = epochs.join(_offers(_by_share(prices), steps), on=["node_type", "devices"])
    hourly = options["usd_per_hour"].unique().median()
    cost = (options["predicted_s"] * options["usd_per_hour"] / 3600).median()
    assert isinstance(hourly, float) and isinstance(cost, float)
    scenarios: tuple[tuple[str, pl.DataFrame, Minimize, Limits], ...] = (
        ("hourly budget", options, "time", Limits(usd_per_hour=hourly)),
        ("total budget", options, "time", Limits(budget_usd=cost)),
        ("cheapest", options, "cost", Limits()),
        ("market prices", at_market, "cost", Limits()),
    )
    for scenario, offered, minimize, limits in scenarios:
        found = regrets(offered, minimize, limits)
        yield {
            "scenario": scenario,
            "dnn": steps["dnn"][0],
            "choice": found["forecast"][0],
            **{
                f"regret_{name.replace(' ', '_')}_percent": None if of is None else 100 * of
                for name, (_, of) in found.items()
            },
        }


def _offers(prices: Mapping[str, float], steps: pl.DataFrame) -> pl.DataFrame:
    """Return k devices of each node type for k/n of the price of as many as were measured."""
    most = int(steps["devices"].max())  # type: ignore[arg-type]
    return pro_rata(
        [
            Instance(name=name, node_type=name, devices=most, usd_per_hour=most * usd)
            for name, usd in prices.items()
        ]
    )


def _by_share(prices: Mapping[str, float]) -> Mapping[str, float]:
    """Return what node types cost if the dearest keeps its price, and others have it by share."""
    known = node_types()
    parts = {name: known[name].cpu_share or 1.0 for name in prices}
    dearest = max(prices, key=lambda name: (prices[name], name))
    return {name: prices[dearest] * part / parts[dearest] for name, part in parts.items()}


FIGURES = (
    PaperFigure(
        "Several devices in a node",
        "Time of an epoch, relative to one device.",
        devices,
        Mark("line", "devices", ("relative_time", "ideal"), of="node_type", panel="dnn"),
        (),
        "section III-D|section IV-C",
    ),
    PaperFigure(
        "Steps of unseen DNNs",
        "Steps of DNNs that were left out of fits, their operations known from their profiles: the "
        "test set together, also without light and CPU operations or without S, and each DNN by "
        "itself. Steps with heavy operations that no other DNN has are not known.",
        unseen_steps,
        printed=r"Fig\. 8\b|section IV-B: training time error",
    ),
    PaperFigure(
        "What to rent for unseen DNNs",
        "An epoch of 1.2 million samples on k of the n devices of a type, pro rata. Budgets are "
        "the median price an hour of all offers, and the median of what epochs are forecast to "
        "cost; at market prices a share of a core costs the same whatever its instruction set. "
        "<em>Regret</em>: by how much a choice is above the best that was measured; infinite: it "
        "exceeds the budget.",
        choices,
        printed=r"Fig\. (9|10|11|12)\b|section V: market price",
    ),
)
