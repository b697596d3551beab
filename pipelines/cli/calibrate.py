"""`stepcast predict --calibrate`: the measured step that corrects forecasts, as a user tells it."""

from collections.abc import Iterator, Sequence

from pydantic import ValidationError

from forecasting.calibration import MeasuredStep
from profilers.record_file import fault
from studies.curve import Curve
from warehouse.records import BadInput

EXAMPLE = "--calibrate workers=1,step_s=0.41"


def parse_measured_step(text: str, curves: Sequence[Curve]) -> MeasuredStep:
    """Return the step that a user measured.

    Args:
        text: fields of the scenario in which it differs from what is asked about, and step_s, or
            steps_per_s of all workers.
        curves: what is asked about.

    Raises:
        BadInput: it is no scenario and figure; one line says why.
    """
    given = dict(_pairs(text))
    figures = {name: given.pop(name) for name in ("step_s", "steps_per_s") if name in given}
    if len(figures) != 1:
        raise BadInput(
            f"--calibrate {text}: expected one of step_s=SECONDS and steps_per_s=STEPS (of all "
            f"workers), such as {EXAMPLE}"
        )
    ((name, figure),) = figures.items()
    numbers = {name: int(word) if word.isdecimal() else word for name, word in given.items()}
    fields = {**curves[0].model_dump(exclude={"mix"}), **numbers}
    try:
        curve = Curve.model_validate(fields)
    except ValidationError as error:
        raise BadInput(f"--calibrate {text}: {fault(error, Curve)}") from None
    if len(curve.workers) != 1:
        raise BadInput(
            f"--calibrate {text}: expected the number of workers that was measured, such as "
            f"{EXAMPLE}; asked about are {', '.join(map(str, curve.workers))}"
        )
    value = _positive(text, name, figure)
    return curve, value if name == "step_s" else curve.workers[0] / value


def _pairs(text: str) -> Iterator[tuple[str, str]]:
    for part in text.split(","):
        name, equals, value = part.partition("=")
        if not equals:
            raise BadInput(f"--calibrate {text}: expected FIELD=VALUE,… such as {EXAMPLE}")
        yield name.strip().replace("-", "_"), value.strip()


def _positive(text: str, name: str, figure: str) -> float:
    try:
        value = float(figure)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise BadInput(f"--calibrate {text}: {name}: expected a number above 0, found {figure!r}")
    return value
