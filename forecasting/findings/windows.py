"""How much predictions depend on WIN, ± 50 % (section 3.2.2 of the ICPE'20 paper)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from forecasting.captured import CapturedProfile, announced
from models.async_sgd import window_sensitivity
from models.async_sgd.predictor import AsyncSGD

FACTORS = window_sensitivity.FACTORS


@dataclass(frozen=True)
class Sensitivity:
    """Predictions of a profile with `FACTORS` of WIN, and with streams that are never suspended.

    `rows` are those of `models.async_sgd.window_sensitivity`.
    """

    title: str
    rows: pl.DataFrame


def windows(
    profiles: Sequence[CapturedProfile], models: Mapping[str, AsyncSGD]
) -> tuple[Sensitivity, ...]:
    """Return predictions of captured profiles under the paper's rule; `models` are by run id.

    The window is what the worker announced first; it is not known where no packets were captured.
    """
    return tuple(_sensitivity(one, models[one.run.run_id]) for one in profiles)


def _sensitivity(profile: CapturedProfile, model: AsyncSGD) -> Sensitivity:
    win = announced(profile, "downlink")["window_bytes"]
    first = win[0] if len(win) else None
    return Sensitivity(profile.title, window_sensitivity.window_sensitivity(model, first))
