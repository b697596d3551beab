"""Rounds of the reference studies, as they are kept."""

from forecasting.inputs import inputs_of_study
from studies.rounds import Round, latest_round
from studies.study import read_study
from warehouse.home import CHECKOUT
from warehouse.sets import kept_runs

REFERENCE = CHECKOUT / "data" / "reference"


def first_round(name: str) -> Round:
    """Return the first round of a reference study."""
    study = read_study(CHECKOUT / "studies" / f"{name}.yaml")
    runs = [run for run in kept_runs(REFERENCE) if run.study == name and run.repeat == 1]
    round_ = latest_round(study, inputs_of_study(study), "emulated", runs[0].host_id, runs)
    assert round_ is not None
    return round_
