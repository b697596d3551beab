"""Assets of what a system simulates: timelines of workers, as Figures 4 and 15 of ICPE'20."""

import polars as pl
from dagster import AssetsDefinition, MaterializeResult, asset
from matplotlib.figure import Figure

from assets.metadata import OWNERS, of_frame
from assets.resources import RoundsResource, WarehouseResource
from assets.studied import Studied
from forecasting.simulations import FittedModels
from forecasting.timelines import simulated
from models.async_sgd.predictor import AsyncSGD
from models.async_sgd.systems import ASYNC_SGD
from reports import timeline_plot
from warehouse.records import Scenario

STEPS = 3
"""Steps of each worker that are shown."""


def simulations(of: Studied) -> list[AssetsDefinition]:
    """Return the timelines of a study of asynchronous SGD; nothing of another."""
    return [_timelines(of)] if ASYNC_SGD in of.rests else []


def _timelines(of: Studied) -> AssetsDefinition:
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
        models = FittedModels(round_, warehouse.landing, warehouse.open())
        figures: list[Figure] = []
        rows = []
        found: dict[str, tuple[Scenario, AsyncSGD]] = {}
        for curve in round_.study.curves:
            if curve.is_judged and (model := models.of_curve(curve)) is not None:
                found.setdefault(curve.dnn, (curve.scenarios(round_.backend)[-1], model))
        for scenario, model in found.values():
            shown, steps_per_s = simulated(model, scenario, STEPS)
            figures.append(timeline_plot.timelines(shown, scenario.label))
            rows.append((scenario.label, steps_per_s, shown.intervals.height))
        schema = ["label", "throughput_steps_per_s", "intervals"]
        frame = pl.DataFrame(rows, schema, orient="row")
        return MaterializeResult(metadata=of_frame(frame, round_, figures))

    return timelines
