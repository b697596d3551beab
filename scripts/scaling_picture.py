"""Draw docs/scaling.svg: forecasts of one job by number of workers, beside what was measured.

Forecasts are the committed ones of tests/yardstick/predictions.csv, measurements those of
data/reference: nothing is fitted or measured here.

Usage: python scripts/scaling_picture.py
"""

import json
from pathlib import Path

import matplotlib
import polars as pl

matplotlib.use("svg")
import matplotlib.pyplot as plt

from warehouse.sets import kept_runs, kept_tables

ROOT = Path(__file__).resolve().parent.parent
REFERENCE = ROOT / "data" / "reference"
STUDY = "reference_async_steady"
JOB = {"dnn": "googlenet", "batch_size": 4, "link_mbps": 400.0, "order": "framework"}
METRIC = "throughput_steps_per_s"
DRAWN = {
    "async_sgd": ("async_sgd, with its 90 % interval", "#1f77b4", "-"),
    "lin": ("lin", "#8c564b", ":"),
    "cynthia": ("cynthia", "#9467bd", ":"),
    "linear": ("linear scaling", "#7f7f7f", "--"),
}


def measured() -> pl.DataFrame:
    """Return subject_id, workers and the mean steps/s over windows, of each run of the job."""
    rows = []
    for run in kept_runs(REFERENCE):
        if (run.study, run.probe, run.status) != (STUDY, "tf_throughput", "ok"):
            continue
        tables = kept_tables(REFERENCE, run.run_id)
        scenario = tables["scenario"].to_pylist()[0]
        fields = json.loads(scenario["canonical"])
        load, strategy = fields["workload"], fields["strategy"]
        job = {
            "dnn": load["dnn"],
            "batch_size": load["batch_size"],
            "link_mbps": fields["link_mbps"],
            "order": strategy["order"],
        }
        if job != JOB:
            continue
        samples = pl.DataFrame(tables["sample"]).filter(pl.col("metric") == METRIC)
        rows.append((scenario["scenario_id"], strategy["workers"], samples["value"].mean()))
    return pl.DataFrame(rows, ["subject_id", "workers", "measured"], orient="row")


def main() -> None:
    """Write the picture."""
    runs = measured()
    forecasts = pl.read_csv(ROOT / "tests/yardstick/predictions.csv").filter(
        pl.col("study") == STUDY, pl.col("metric") == METRIC, pl.col("repeat") == 1
    )
    matplotlib.rcParams.update({"svg.hashsalt": "stepcast", "font.size": 10})
    figure, axes = plt.subplots(figsize=(6.4, 3.6), layout="constrained")
    workers = runs.select("subject_id", "workers").unique()
    for system, (label, colour, style) in DRAWN.items():
        line = (
            forecasts.filter(pl.col("system") == system)
            .join(workers, on="subject_id")
            .sort("workers")
        )
        axes.plot(line["workers"], line["value"], style, color=colour, label=label)
        if system == "async_sgd":
            axes.fill_between(line["workers"], line["low"], line["high"], color=colour, alpha=0.2)
    axes.plot(runs["workers"], runs["measured"], "ko", label="measured, each run")
    axes.set(xlabel="workers", ylabel="steps/s of all workers", ylim=(0, None))
    axes.set_xticks(sorted(set(runs["workers"])))
    axes.legend(frameon=False, fontsize=9)
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(ROOT / "docs/scaling.svg", metadata={"Date": None})


if __name__ == "__main__":
    main()
