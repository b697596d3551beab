"""Steps of others on several devices, of which everything is known because it was made up."""

import polars as pl
import pytest

from models.ceer.public_files import PARAMETERS, fit_steps


def steps(dnn: str, batch_size: int, alone_s: float) -> pl.DataFrame:
    """Steps of one device, and of two: 10 ms and 1 ms per million parameters longer."""
    two_s = alone_s + 0.01 + PARAMETERS[dnn] * 1e-9
    return pl.DataFrame(
        {
            "subject_id": [f"{dnn} 1", f"{dnn} 2"],
            "node_type": "2x T4",
            "dataset": "syn",
            "variable_update": "replicated",
            "precision": "fp32",
            "distortions": False,
            "mode": "train",
            "dnn": dnn,
            "batch_size": batch_size,
            "world_size": [1, 2],
            "value": [batch_size / alone_s, 2 * batch_size / two_s],
        }
    )


def test_more_devices_add_what_is_linear_in_parameters() -> None:
    seen = pl.concat([steps("resnet50", 32, 0.2), steps("inception3", 32, 0.4)])
    vgg16 = steps("vgg16", 16, 0.3)
    fitted = fit_steps(pl.concat([seen, vgg16.head(1)]))
    found = fitted.predict(vgg16.tail(1).drop("value"))
    assert found.select("subject_id").item() == "vgg16 2"
    assert found["value"].item() == pytest.approx(vgg16["value"][1])


def test_steps_unknown_on_one_device_are_not_forecast() -> None:
    fitted = fit_steps(pl.concat([steps("resnet50", 32, 0.2), steps("inception3", 32, 0.4)]))
    assert fitted.predict(steps("vgg16", 16, 0.3).tail(1).drop("value")).is_empty()
