"""Figures of ICPE'20, asynchronous SGD in TensorFlow: errors and throughput."""

import polars as pl

from forecasting.findings.figure import MeasuredRound, PaperFigure, together
from forecasting.findings.mark import Mark
from forecasting.results import headline_filter
from studies.curve import Curve
from warehouse.records import on_images


def errors_by_batch(found: MeasuredRound) -> pl.DataFrame | None:
    """Return mean errors of two or more workers, by network and batch size."""
    batches = [curve.batch_size for curve in found.round.study.curves]
    error = pl.col("error_percent")
    return (
        found.rows.filter(headline_filter(found.rows), error.is_not_null(), ~pl.col("host_busy"))
        .with_columns(batch_size=pl.col("curve").replace_strict(range(len(batches)), batches))
        .group_by("dnn", "batch_size")
        .agg(
            n=pl.len(),
            mean_percent=error.mean(),
            absolute_percent=error.abs().mean(),
            largest_percent=error.abs().max(),
        )
        .sort("dnn", "batch_size")
    )


ERRORS = PaperFigure(
    "Errors by network and batch size",
    "Of two or more workers; what was measured while the host was busy is not in it.",
    errors_by_batch,
    printed=r"Fig\. (13|14|17|20|21)\b|Table 5, caption|section 5\.3: end-to-end MAPE",
)
"""Of a study of any paper."""


def examples_per_s(found: MeasuredRound) -> pl.DataFrame | None:
    """Return examples a second of all workers, curve by curve: Figs. 2, 18 and 25 compare these."""
    study = found.round.study
    if study.metric.name != "throughput_steps_per_s":
        return None
    return together(
        [
            found.rows.filter(curve=place).select(
                pl.lit(on_images(curve.dnn, curve.image_size)).alias("network"),
                pl.lit(_setting(curve)).alias("setting"),
                "workers",
                pl.col("predicted", "measured") * curve.batch_size,
            )
            for place, curve in enumerate(study.curves)
        ]
    )


def _setting(curve: Curve) -> str:
    """Return what curves of a network may differ in, in short."""
    speed = "" if curve.link_mbps is None else f", {curve.link_mbps:g} Mb/s"
    order = "" if curve.order == "framework" else f", order {curve.order}"
    servers = "" if curve.servers == 1 else f", {curve.servers} servers {curve.placement}"
    return f"b{curve.batch_size}{speed}{order}{servers}"


FIGURES = (
    PaperFigure(
        "Examples a second by number of workers",
        "Of all workers, by batch size, link speed, order of transfers, servers and placement.",
        examples_per_s,
        Mark("line", "workers", ("predicted", "measured"), of="setting", panel="network"),
        (),
        r"Fig\. (18|19|25)\b",
    ),
)
