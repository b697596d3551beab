"""Assets of what a system simulates: timelines of workers, as Figures 4 and 15 of ICPE'20."""

import polars as pl
from dagster import AssetsDefinition, MaterializeResult, asset
from matplotlib.figure import Figure

from assets.metadata import OWNERS, of_figures, of_frame
from assets.resources import RoundsResource, WarehouseResource
from assets.study_lineage import StudyLineage
from forecasting.findings.mark import Mark
from forecasting.fits import Fit
from forecasting.round_forecasts import fits_of_round
from models.async_sgd.predictor import AsyncSGD
from models.async_sgd.synthetic_trace import steps_per_s
from models.async_sgd.systems import ASYNC_SGD
from models.async_sgd.timeline import simulate_trace, timeline_of_trace
from models.async_sgd.workers import group_of_each
from reports.marks import draw
from warehouse.records import Scenario

STEPS = 5
"""Steps of each worker that are shown."""
_TIMELINE = Mark("spans", "start_ms", ("what",), of="resource", to="end_ms")


def simulations(of: StudyLineage) -> list[AssetsDefinition]:
    """Return the timelines of a study of asynchronous SGD; nothing of another."""
    return [_timelines(of)] if ASYNC_SGD in of.rests else []


def _timelines(of: StudyLineage) -> AssetsDefinition:
    @asset(
        key=of.key("simulations", "timelines"),
        deps=[of.key("fits", ASYNC_SGD.name)],
        group_name=of.name,
        owners=OWNERS,
        kinds={"simulation", "matplotlib"},
        pool="warehouse",
        code_version=ASYNC_SGD.version,
    )
    def timelines(rounds: RoundsResource, warehouse: WarehouseResource) -> MaterializeResult:
        """What workers are predicted to do when, in the largest scenario of each network."""
        round_ = rounds.latest(of.path)
        largest: dict[str, tuple[Scenario, Fit]] = {}
        for curve, fit in fits_of_round(ASYNC_SGD, round_, warehouse.open()).items():
            largest.setdefault(curve.dnn, (curve.scenarios(round_.backend)[-1], fit))
        figures: list[Figure] = []
        rows = []
        for scenario, fit in largest.values():
            model = fit.fitted()
            assert isinstance(model, AsyncSGD)
            # What comes after the warm-up of a simulation.
            trace = simulate_trace(model, scenario, record=True)
            skip = model.parameters.settings.warm_up_steps
            graphs = [group.graph for group in group_of_each(model.simulation(scenario, 0))]
            shown = timeline_of_trace(graphs, trace, skip=skip, count=STEPS)
            spans = shown.intervals.sort("worker", "resource").select(
                "resource",
                what=pl.format("worker {}: {}", "worker", "resource"),
                start_ms=pl.col("start_us") / 1e3,
                end_ms=pl.col("end_us") / 1e3,
            )
            figures.append(draw(_TIMELINE, spans, scenario.label))
            rows.append((scenario.label, steps_per_s(trace, skip), shown.intervals.height))
        schema = ["label", "throughput_steps_per_s", "intervals"]
        frame = pl.DataFrame(rows, schema, orient="row")
        return MaterializeResult(metadata=of_frame(frame, round_) | of_figures(figures))

    return timelines
