"""Figures of Ceer: operations, several devices, DNNs that it has not seen, what it would rent."""

from collections.abc import Iterator, Mapping
from itertools import combinations

import polars as pl

from forecasting.ceer_study import leave_out, usd_per_hour
from forecasting.findings.figure import MeasuredRound, PaperFigure, together
from forecasting.findings.mark import Mark
from models.ceer import overhead
from models.ceer.classes import deviations, scaling, shares, type_times
from models.ceer.features import table as sizes
from models.ceer.operation_times import add_operation_types
from models.ceer.operations import STEP, operations_of_profile, select_computation
from models.ceer.predictor import Ceer
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


def class_shares(found: MeasuredRound) -> pl.DataFrame | None:
    """Return the share of heavy, light and CPU types in the time of a step, percent."""
    if found.ceer is None:
        return None
    rows, model = _fitted_operations(found), found.ceer[1]
    wide = shares(rows, model.parameters.classes).pivot(
        "class", index=["dnn", "node_type"], values="share", maintain_order=True
    )
    classes = [name for name in ("heavy", "light", "cpu") if name in wide.columns]
    return wide.select(
        "dnn", "node_type", *(pl.col(name).fill_null(0) * 100 for name in classes)
    ).rename({name: f"{name}_percent" for name in classes})


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


def regressions(found: MeasuredRound) -> pl.DataFrame | None:
    """Return what the times of heavy types are fitted with, over node types."""
    if found.ceer is None:
        return None
    parameters = found.ceer[1].parameters
    fits = [each for each in parameters.regressions if each.type in parameters.classes.heavy]
    if not fits:
        return None
    names = ("type", "node_type", "form", "r_squared", "sum_error", "points")
    rows = pl.DataFrame([{name: getattr(each, name) for name in names} for each in fits])
    return rows.select(
        *names[:4], sum_error_percent=100 * pl.col("sum_error"), operations="points"
    ).sort("type", "node_type")


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


def unseen_operations(found: MeasuredRound) -> pl.DataFrame | None:
    """Return errors of heavy operations of the test set; node types count by their time.

    The paper's mean errors of heavy types on unseen CNNs are 2 to 10 % (section IV-B).
    """
    if found.ceer is None or not found.ceer[0].unseen:
        return None
    measured, model = found.ceer
    unseen = measured.operations.filter(pl.col("dnn").is_in(list(measured.unseen)))
    rows = pl.concat(_operations(model, part) for part in unseen.partition_by(STEP))
    known = rows.filter(pl.col("us").is_not_null(), pl.col("mean_us") > 0)
    spent, predicted_us = (pl.col("count") * pl.col(name) for name in ("mean_us", "us"))
    return (
        known.group_by("type", "class")
        .agg(
            operations=pl.len(),
            absolute_percent=100 * (pl.col("us") / pl.col("mean_us") - 1).abs().mean(),
            sum_error_percent=100 * (predicted_us.sum() / spent.sum() - 1),
            share_percent=spent.sum(),
        )
        .with_columns(share_percent=100 * pl.col("share_percent") / pl.col("share_percent").sum())
        .filter(_HEAVY)
        .drop("class")
        .sort("share_percent", "type", descending=[True, False])
    )


def _operations(model: Ceer, rows: pl.DataFrame) -> pl.DataFrame:
    """Return measured operations of one step beside their forecasts, `us`, and class."""
    measured = add_operation_types(select_computation(rows), model.parameters.settings)
    network = operations_of_profile(rows, rows["dnn"][0], rows["batch_size"][0], 1)
    key = ["type", "inputs", "outputs", "attributes", "input_bytes", "output_bytes"]
    predicted = model.operations(network, [rows["node_type"][0]])
    return measured.join(predicted.select(*key, "class", "us").unique(), on=key, nulls_equal=True)


def order_of_node_types(found: MeasuredRound) -> pl.DataFrame | None:
    """Return how many pairs of node types, with equal devices, are in the measured order.

    Pairs that differ by less than the noise floor are left out, and counted as close.
    """
    if found.ceer is None or not found.ceer[0].unseen:
        return None
    noise, rows = found.noise or 0.0, []
    known = found.ceer[0].whole_forecasts.filter(pl.col("step_s").is_not_null())
    same = ["dnn", "image_size", "batch_size", "devices", "link_mbps"]
    for group in known.partition_by(same, maintain_order=True):
        times = group.select("measured_s", "step_s").rows()
        for (a, a_predicted), (b, b_predicted) in combinations(times, 2):
            is_close = abs(a - b) <= noise * min(a, b)
            is_right = not is_close and (a < b) == (a_predicted < b_predicted)
            rows.append((group["dnn"][0], not is_close, is_right, is_close))
    names = ("dnn", "pairs", "right", "close")
    counted = pl.DataFrame(rows, schema=names, orient="row").group_by("dnn", maintain_order=True)
    return counted.agg(pl.col(*names[1:]).sum()) if rows else None


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
        "Time of single operations",
        "Heavy types take 0.5 ms or more in the mean on the slowest node type; CPU types have no "
        "GPU kernel. Shares of the time of all operations of a step, of DNNs that fits saw.",
        class_shares,
        printed="section III-A|section IV-B: R squared",
    ),
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
        "What times of heavy types are fitted with",
        "The form that was chosen, its R², and the error of all operations of a DNN left out.",
        regressions,
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
        "Operations of unseen DNNs",
        "Heavy operations of the test set, of all node types together: how many distinct ones, the "
        "mean absolute error of their times, the error of their sum, and their share of all time.",
        unseen_operations,
        printed="section IV-B: mean error of one operation type",
    ),
    PaperFigure(
        "Order of node types of unseen DNNs",
        "Pairs of node types that were forecast in the measured order, at equal devices. "
        "<em>Close</em>: measured steps differ by less than the noise floor.",
        order_of_node_types,
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
