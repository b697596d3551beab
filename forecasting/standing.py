"""On what a forecast stands: what was measured, how wrong such were, how to measure the same."""

from typing import Literal

from forecasting.forecast import ScenarioForecast
from networks.catalogue import OWN
from warehouse.records import Record

StandsOn = Literal["measured", "own trace", "public rows", "data sheet"]
"""`measured`: runs of one's own; `own trace`: a profiled step on this GPU with most operators;
`public rows` of this GPU in this precision; its `data sheet`, and public rows of others."""

_MOSTLY = 0.5


class Standing(Record):
    """What a forecast stands on.

    Attributes:
        stands_on: see `StandsOn`.
        past_error_percent: mean absolute error of forecasts like it; None: none was judged.
        past_error_n: of how many.
        past_error_of: what these forecasts were of.
        measure_command: what measures the same quantity, or the part of one GPU of several.
    """

    stands_on: StandsOn
    past_error_percent: float | None
    past_error_n: int
    past_error_of: str
    measure_command: str


def standing(forecast: ScenarioForecast) -> Standing:
    """Return on what a forecast stands."""
    detail, past, split = forecast.detail, forecast.past, forecast.split.replace("_", " ")
    percent, n, of = None, 0, "none was judged"
    if past is not None:
        percent, n, of = past["mape"], past["n"], f"forecasts of split {split}, judged here"
    elif detail is not None and detail["past_error_percent"] is not None:
        percent, n = detail["past_error_percent"], detail["past_n"]
        left_out = f"networks on {', '.join(on)}" if (on := detail["past_devices"]) else "GPUs"
        of = f"{left_out}, left out of the fit"
    return Standing(
        stands_on=_stands_on(forecast),
        past_error_percent=percent,
        past_error_n=n,
        past_error_of=of,
        measure_command=_measure_command(forecast),
    )


def _stands_on(forecast: ScenarioForecast) -> StandsOn:
    detail = forecast.detail
    if detail is None or forecast.corrected_by is not None:
        return "measured"
    if detail["own_share"] >= _MOSTLY:
        return "own trace"
    return "public rows" if detail["rests_on"] == "public" else "data sheet"


def _measure_command(forecast: ScenarioForecast) -> str:
    """Return a command; TRACE and TARGET are the user's, `asked.yaml` is what `predict` prints."""
    load, worker = forecast.scenario.workload, forecast.scenario.worker_groups[0].node_type
    if forecast.detail is not None:
        return f"stepcast import kineto TRACE --worker {worker}"
    if load.dnn.startswith(OWN):
        return f"stepcast profile TARGET --worker {worker} --batch-size {load.batch_size}"
    return "stepcast run asked.yaml"
