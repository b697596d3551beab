"""Figures of Ceer: operations, several devices, DNNs that it has not seen, what it would rent."""

from collections.abc import Iterator, Mapping

import polars as pl

from forecasting.ceer_study import leave_out, usd_per_hour
from forecasting.findings.figure import MeasuredRound, PaperFigure, together
from forecasting.findings.mark import Mark
from models.ceer import overhead
from models.ceer.classes import deviations, scaling, type_times
from models.ceer.features import table as sizes
from models.ceer.operation_times import add_operation_types
from models.ceer.operations import select_computation
from models.ceer.regression import fit
from models.choice.limits import Limits, Minimize
from models.choice.pro_rata import Instance, pro_rata, regrets
from profilers.clusters.node_types import node_types

IMAGENET_SAMPLES = 1_200_000
"""D of the paper (section V)."""
_INPUT_ALONE = {"linear": ("1", "input")}
_SHOWN = 3
"""Types whose time is shown by their input: those that take most."""
_SETUP = ("devices", "link_mbps")
_HEAVY = pl.col("class") == "heavy"


def _fitted_operations(found: MeasuredRound) -> pl.DataFrame:
    """Return operations of the DNNs that predictors saw, with their types."""
    assert found.ceer is not None
    measured, model = found.ceer
    settings = model.parameters.settings
    return add_operation_types(select_computation(measured.fitted[0]), settings)


def heavy_times(found: MeasuredRound) -> pl.DataFrame | None:
    """Return what heavy types take, and cost, on each node type (Figs. 2 and 3)."""
    if found.ceer is None:
        return None
    measured, model = found.ceer
    prices = usd_per_hour(measured)
    times = type_times(_fitted_operations(found), model.parameters.classes, prices).filter(_HEAVY)
    return times.select(
        "type",
        "node_type",
        "operations",
        "input_mb",
        ms=pl.col("mean_us") / 1e3,
        billionths_of_usd=1e9 * pl.col("usd"),
    ).sort(pl.col("ms").mean().over("type"), "node_type")


def heavy_deviations(found: MeasuredRound) -> pl.DataFrame | None:
    """Return which share of heavy operations varies by no more than so much (Fig. 5)."""
    if found.ceer is None:
        return None
    rows = deviations(_fitted_operations(found), found.ceer[1].parameters.classes)
    return rows.filter(_HEAVY).select("node_type", "deviation", "share")


def times_by_input(found: MeasuredRound) -> pl.DataFrame | None:
    """Return times of the heavy types that take most by their input, and a line (Fig. 4)."""
    if found.ceer is None:
        return None
    rows = _fitted_operations(found).filter(
        pl.col("type").is_in(found.ceer[1].parameters.classes.heavy)
    )
    spent = rows.group_by("type").agg(us=(pl.col("count") * pl.col("mean_us")).sum())
    most = spent.sort("us", "type", descending=[True, False])["type"].head(_SHOWN)
    frames = []
    for kind in most:
        of_kind = rows.filter(type=kind)
        points = pl.concat([of_kind, sizes(of_kind)], how="horizontal").sort("node_type", "input")
        for (name,), part in points.group_by("node_type", maintain_order=True):
            line = fit(
                part,
                operation_type=kind,
                node_type=str(name),
                forms=_INPUT_ALONE,
                weights="equal",
            )
            by = dict(zip(line.terms, line.coefficients_us, strict=True))
            line_us = by.get("1", 0.0) + by.get("input", 0.0) * pl.col("input")
            frames.append(
                part.select(
                    "type",
                    "node_type",
                    pl.lit(line.r_squared, pl.Float64).alias("r_squared"),
                    input_mb="input",
                    line_ms=line_us / 1e3,
                    ms=pl.col("mean_us") / 1e3,
                )
            )
    return together(frames)


def devices(found: MeasuredRound) -> pl.DataFrame | None:
    """Return how much shorter epochs are on several devices than on one (Fig. 6)."""
    if found.ceer is None or (steps := found.ceer[0].fitted[1]).is_empty():
        return None
    several = scaling(steps).filter(pl.col("devices").max().over("dnn") > 1)
    return several.with_columns(ideal=1 / pl.col("devices")).sort("dnn", "node_type", "devices")


def step_overheads(found: MeasuredRound) -> pl.DataFrame | None:
    """Return S_k by parameters, and its line, of each number of devices and link (Fig. 7)."""
    if found.ceer is None or (steps := found.ceer[0].fitted[1]).is_empty():
        return None
    rows = overhead.overheads(steps, found.ceer[0].fitted[0])
    frames = []
    for setup in rows.sort(_SETUP).partition_by(_SETUP, maintain_order=True):
        count, link_mbps = setup.select(_SETUP).row(0)
        speed = "" if link_mbps is None else f", {link_mbps:g} Mb/s"
        frames += [
            setup.filter(node_type=line.node_type)
            .sort("parameter_count")
            .select(
                pl.lit(f"{count} device{'s' if count > 1 else ''}{speed}").alias("setup"),
                "node_type",
                pl.lit(line.r_squared, pl.Float64).alias("r_squared"),
                millions_of_parameters=pl.col("parameter_count") / 1e6,
                overhead_s="overhead_s",
                line_s=line.intercept_s + line.per_parameter_s * pl.col("parameter_count"),
            )
            for line in overhead.fit(setup, forms="paper", relative=False)
        ]
    return together(frames)


def unseen_steps(found: MeasuredRound) -> pl.DataFrame | None:
    """Return errors of steps of DNNs that were left out of fits: together, ablated, and each."""
    if found.ceer is None or not found.ceer[0].unseen:
        return None
    measured = found.ceer[0]
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
    if found.ceer is None or not (measured := found.ceer[0]).unseen:
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
        "Time and cost of heavy operations",
        "Means over all DNNs that are fitted.",
        heavy_times,
        Mark("points", "ms", ("type",), of="node_type", log="x"),
    ),
    PaperFigure(
        "How much heavy operations vary",
        "Share of operations by their standard deviation over their mean.",
        heavy_deviations,
        Mark("step", "deviation", ("share",), of="node_type", log="x"),
        (),
    ),
    PaperFigure(
        "Time of heavy operations by size of input",
        "Lines of least squares in the input alone, as in the paper's figure; what is fitted may "
        "see filters, outputs and multiplications too.",
        times_by_input,
        Mark("line", "input_mb", ("line_ms", "ms"), of="node_type", panel="type"),
        (),
    ),
    PaperFigure(
        "Several devices in a node",
        "Time of an epoch, relative to one device.",
        devices,
        Mark("line", "devices", ("relative_time", "ideal"), of="node_type", panel="dnn"),
        (),
        "section III-D|section IV-C",
    ),
    PaperFigure(
        "What a step takes beside its operations",
        "S: steps less the sum of their operations, by parameters; lines of least squares.",
        step_overheads,
        Mark(
            "line",
            "millions_of_parameters",
            ("line_s", "overhead_s"),
            of="node_type",
            panel="setup",
        ),
        (),
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
