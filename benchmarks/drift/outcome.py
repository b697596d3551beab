"""What replays came to: tables, and a picture of what a threshold gains and costs."""

from collections.abc import Iterable, Sequence
from math import exp
from pathlib import Path
from statistics import median

import polars as pl
from matplotlib.figure import Figure
from statsmodels.stats.proportion import proportion_confint

from benchmarks.drift.collecting import relative_memory
from benchmarks.drift.injecting import What
from benchmarks.drift.landed import Probed, injected, quiet
from benchmarks.drift.replaying import LEAST_BY, MOST_DAYS, Replayed
from profilers import watch

FIGURE: dict[What, str] = {
    "links": watch.TO_SERVER,
    "cpu_share": watch.CPU_SHARE,
    "memory": watch.MEMORY,
}
"""The metric that is made slower itself."""
_IN_TWO = (pl.col("probes") <= 2).fill_null(value=False)


def hits(replayed: Replayed, probes: Sequence[Probed]) -> pl.DataFrame:
    """Return, for each thing made slower, how often and how soon it was found.

    Returns:
        what, by, landed (probes), found_in_two, low and high (95 % of Wilson's interval, of as many
        trials as probes landed: replays draw the same ones again), missed, mean_probes and
        mean_days until confirmed, and with what it did to probes: fell_by (of the metric itself, in
        the median) and steps_longer_by.
    """
    counts = replayed.found.group_by("what", "by").agg(
        found_in_two=_IN_TWO.mean(),
        missed=pl.col("probes").is_null().mean(),
        mean_probes=pl.col("probes").mean(),
        mean_days=pl.col("days").mean(),
    )
    effects = effect(probes)
    intervals = pl.struct("found_in_two", "landed").map_elements(
        _interval, return_dtype=pl.List(pl.Float64)
    )
    return (
        effects.join(counts, on=["what", "by"])
        .with_columns(interval=intervals)
        .with_columns(low=pl.col("interval").list[0], high=pl.col("interval").list[1])
        .drop("interval")
        .sort("what", "by")
    )


def effect(probes: Sequence[Probed]) -> pl.DataFrame:
    """Return what, by, landed, fell_by and steps_longer_by: see `hits`."""
    calm = quiet(probes)
    steps_s = median(one.value(watch.STEP_TIME) for one in calm)
    rows = []
    for injection, some in injected(probes).items():
        usual, found = (_median(_figure(one, injection.what) for one in of) for of in (calm, some))
        longer = median(one.value(watch.STEP_TIME) for one in some) / steps_s - 1
        rows.append((injection.what, injection.by, len(some), 1 - found / usual, longer))
    columns = ["what", "by", "landed", "fell_by", "steps_longer_by"]
    return pl.DataFrame(rows, columns, orient="row")


def false_alarms(replayed: Replayed, landed: int) -> pl.DataFrame:
    """Return alarms and confirmed ones per 100 quiet days, of so many quiet probes that landed."""
    days = int(replayed.quiet["days"].sum())
    rows = []
    for name in ("alarms", "confirmed"):
        share = int(replayed.quiet[name].sum()) / days
        low, high = _interval({"found_in_two": share, "landed": landed})
        rows.append((name, 100 * share, 100 * low, 100 * high, days))
    return pl.DataFrame(rows, ["what", "per_100_days", "low", "high", "days"], orient="row")


def trade_off(replayed: Replayed) -> pl.DataFrame:
    """Return z, what, by, found_in_two, and per 100 quiet days false_alarms and false_confirmed."""
    calm = replayed.quiet.group_by("z").agg(
        false_alarms=100 * pl.col("alarms").sum() / pl.col("days").sum(),
        false_confirmed=100 * pl.col("confirmed").sum() / pl.col("days").sum(),
    )
    found = replayed.found.group_by("z", "what", "by").agg(found_in_two=_IN_TWO.mean())
    return found.join(calm, on="z").sort("z", "what", "by")


def draw(rows: pl.DataFrame, chosen: Sequence[float], title: str) -> Figure:
    """Return the trade-off: what is found left, false alarms right, by threshold."""
    figure = Figure(figsize=(11, 5), layout="constrained")
    left, right = figure.subplots(1, 2)
    markers = dict(zip(sorted(rows["what"].unique()), "os^Dv", strict=False))
    for (what, by), line in rows.group_by("what", "by", maintain_order=True):
        shade = 0.25 + 0.75 * min(float(str(by)) / 0.3, 1.0)
        color = f"C{sorted(markers).index(str(what))}"
        label = f"{what} {float(str(by)):.0%}"
        style = {"marker": markers[str(what)], "color": color, "alpha": shade}
        left.plot(line["z"], 100 * line["found_in_two"], label=label, **style)
    left.axhline(95, color="grey", linestyle=":")
    left.set(xlabel="threshold (z)", ylabel="found within two probes, %", ylim=(-3, 103))
    figure.legend(
        *left.get_legend_handles_labels(), loc="outside lower center", ncols=8, fontsize=8
    )
    calm = rows.unique("z").sort("z")
    for name, label in (("false_alarms", "alarms"), ("false_confirmed", "confirmed alarms")):
        right.plot(calm["z"], calm[name], marker="o", label=f"false {label}")
    right.axhline(1, color="grey", linestyle=":")
    right.set(xlabel="threshold (z)", ylabel="per 100 quiet days")
    right.legend()
    for panel in (left, right):
        for z in chosen:
            panel.axvline(z, color="black", linewidth=0.8, linestyle="--")
    figure.suptitle(title)
    return figure


def in_words(table: pl.DataFrame, chosen: Sequence[float]) -> list[str]:
    """Return lines that say what `hits` found, all that is slower by `LEAST_BY` or more first."""
    large = table.filter(pl.col("by") >= LEAST_BY - 1e-9)
    landed = int(large["landed"].sum())
    share = float((large["found_in_two"] * large["landed"]).sum()) / max(landed, 1)
    lines = [
        f"thresholds chosen on each half for the other: z = {chosen[0]:g}, {chosen[1]:g}",
        f"slower by {LEAST_BY:.0%} or more: {share:.1%} found within two probes, n = {landed}",
    ]
    for row in table.iter_rows(named=True):
        delay = "never found" if row["mean_probes"] is None else f"{row['mean_probes']:.1f} probes"
        lines.append(
            f"{row['what']} −{row['by']:.0%} (fell by {row['fell_by']:.1%}, steps "
            f"{row['steps_longer_by']:+.1%}): {row['found_in_two']:.1%} found within two probes "
            f"[{row['low']:.1%}, {row['high']:.1%}], n = {row['landed']}; {delay} to confirm; "
            f"{row['missed']:.1%} missed in {MOST_DAYS} days"
        )
    return lines


def write(folder: Path, replayed: Replayed, table: pl.DataFrame, figure: Figure) -> None:
    """Write the picture and the tables into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    figure.savefig(folder / "drift.svg")
    trade_off(replayed).write_csv(folder / "drift_trade_off.csv", float_precision=4)
    table.write_csv(folder / "drift_found.csv", float_precision=4)


def _median(figures: Iterable[float | None]) -> float:
    return median(figure for figure in figures if figure is not None)


def _figure(one: Probed, what: What) -> float | None:
    """Return the figure that is made slower, as far as the host did not make it so; if known."""
    if what == "memory":
        return relative_memory(one)
    row = one.reading(FIGURE[what])
    # Steady cores have less of each second the faster the host is.
    paced = what == "cpu_share" and row["paced"]
    return float(row["value"]) * (exp(-row["host"]) if paced else 1.0)


def _interval(of: dict[str, float]) -> list[float]:
    share, landed = of["found_in_two"], of["landed"]
    low, high = proportion_confint(share * landed, landed, method="wilson")
    return [float(low), float(high)]
