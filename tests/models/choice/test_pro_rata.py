"""Prices of some of an instance's devices by the paper's examples, and regrets by hand."""

import polars as pl
import pytest

from models.choice.limits import Limits, Minimize
from models.choice.pro_rata import Instance, pro_rata, regrets

PAPER = [
    Instance(name=name, node_type=node_type, devices=devices, usd_per_hour=usd)
    for name, node_type, devices, usd in (
        ("p3.2xlarge", "P3", 1, 3.06),
        ("p2.xlarge", "P2", 1, 0.90),
        ("g4dn.2xlarge", "G4", 1, 0.752),
        ("g3s.xlarge", "G3", 1, 0.75),
        ("p3.8xlarge", "P3", 4, 12.24),
        ("p2.8xlarge", "P2", 8, 7.20),
        ("g4dn.12xlarge", "G4", 4, 3.912),
        ("g3.16xlarge", "G3", 4, 4.56),
    )
]
"""Section V."""
HOURS = {("P3", 1): 1.5, ("P3", 3): 0.8, ("P3", 4): 0.7, ("P2", 1): 15.0, ("P2", 3): 6.0}
HOURS |= {("G4", 1): 5.0, ("G4", 3): 2.0, ("G4", 4): 1.6, ("G3", 1): 9.0, ("G3", 3): 3.5}
Hours = dict[tuple[str, int], float]


def options(predicted: Hours, measured: Hours) -> pl.DataFrame:
    """Return epochs that take so many hours, at the paper's prices."""
    rows = [
        (*place, 3600 * hours, None if (seen := measured.get(place)) is None else 3600 * seen)
        for place, hours in predicted.items()
    ]
    names = ["node_type", "devices", "predicted_s", "measured_s"]
    schema = dict(zip(names, (pl.String, pl.Int64, pl.Float64, pl.Float64), strict=True))
    epochs = pl.DataFrame(rows, schema=schema, orient="row")
    return epochs.join(pro_rata(PAPER), on=["node_type", "devices"])


@pytest.mark.parametrize(
    ("node_type", "devices", "instance", "usd"),
    [
        ("P2", 3, "p2.8xlarge", 2.70),
        ("P2", 8, "p2.8xlarge", 7.20),
        ("G3", 3, "g3.16xlarge", 3.42),
        ("G4", 3, "g4dn.12xlarge", 2.934),
        ("P3", 3, "p3.8xlarge", 9.18),
    ],
)
def test_the_paper_s_prices(node_type: str, devices: int, instance: str, usd: float) -> None:
    (offer,) = pro_rata(PAPER).filter(node_type=node_type, devices=devices).to_dicts()
    assert offer["instance"] == instance
    assert offer["usd_per_hour"] == pytest.approx(usd)


@pytest.mark.parametrize(
    ("minimize", "limits", "choice"),
    [
        ("time", Limits(usd_per_hour=3.42), "1 P3"),
        ("time", Limits(budget_usd=10.0), "4 P3"),
        ("time", Limits(budget_usd=8.0), "3 P3"),  # 0.7 h at 12.24 is 8.57 dollars
        ("cost", Limits(), "1 G4"),
    ],
)
def test_the_paper_s_scenarios(minimize: Minimize, limits: Limits, choice: str) -> None:
    found = regrets(options(HOURS, HOURS), minimize, limits)
    assert found["forecast"] == (choice, 0.0)


def test_regret_is_against_the_measured_best() -> None:
    found = regrets(options(HOURS, HOURS | {("G4", 1): 6.0, ("P3", 1): 1.0}), "cost", Limits())
    # Measured: G4 costs 4.512 and P3 3.06 dollars; G3 6.75, and four P3 8.568.
    assert {who: of for who, (_, of) in found.items()} == pytest.approx(
        {
            "forecast": 4.512 / 3.06 - 1,
            "cheapest": 6.75 / 3.06 - 1,
            "most powerful": 8.568 / 3.06 - 1,
        }
    )
