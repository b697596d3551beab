"""What is asked about without a model of one's own: templates, as under `test:` of a study."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import Field, ValidationError

import networks
from forecasting.options import named_as_options
from profilers.record_file import fault, validated
from studies.curve import OF_SEVERAL, Curve
from studies.study import Test
from warehouse import limits
from warehouse.documents import read_document
from warehouse.records import BadInput, Record

if TYPE_CHECKING:
    from forecasting.calibration import MeasuredStep

Options = Mapping[str, Any]
"""Fields of a template, as options say them."""
_EXAMPLE = "--calibrate workers=1,step_s=0.41"


class Templates(Record):
    """Templates of scenarios."""

    test: tuple[Test, ...] = Field(max_length=limits.LISTED)


def of_options(options: Options) -> list[Mapping[str, object]]:
    """Return the template that options make.

    PyTorch's strategy is all_reduce if none is given, but numbers of workers, devices or links are;
    without these it is single (`Curve`).

    Raises:
        BadInput: nothing is asked about.
    """
    given = {name: value for name, value in options.items() if value is not None}
    if not given:
        raise BadInput(
            "nothing asked: give --dnn, --image-size, --batch-size, --worker, --workers and "
            "--link-mbps, or a file of templates; `stepcast predict --help` has examples"
        )
    if given.get("framework") == "pytorch" and given.keys() & OF_SEVERAL:
        given.setdefault("strategy", "all_reduce")
    return [given]


def of_file(path: Path, options: Options) -> list[Mapping[str, object]]:
    """Return the templates of a YAML file.

    Raises:
        BadInput: options are given too, or it holds no list of templates.
    """
    if not path.exists():
        known = {dnn for of in ("tensorflow", "pytorch") for dnn in networks.names(of)}
        if f"{path}" in known:
            raise BadInput(f"{path} is a network: give it as `--dnn {path}`")
        raise BadInput(
            f"{path} does not exist: expected a file of templates; a network is `--dnn NAME` "
            "(`stepcast support` lists them), a model of your own package.module:function or "
            "hf:CONFIG"
        )
    if given := [name for name, text in options.items() if text is not None]:
        option = given[0].replace("_", "-")
        raise BadInput(f"--{option} and {path}: expected either options or a file of templates")
    templates = read_document(path, "templates")
    if (
        not templates
        or not isinstance(templates, list)
        or not all(isinstance(template, Mapping) for template in templates)
    ):
        raise BadInput(
            f"{path}: expected a list of templates, as under test: of a study, "
            f"found {templates!r:.60}"
        )
    return templates


def curves_of(listed: Sequence[Mapping[str, object]], path: Path | None) -> list[Curve]:
    """Return the curves of templates.

    Raises:
        BadInput: naming the option, or the file and the field.
    """
    try:
        read = Templates.model_validate({"test": list(listed)})
    except ValidationError as error:
        # Where a whole template is wrong, its fields say no more than the message does.
        text = fault(error, Templates).removeprefix("test").partition(", found {")[0]
        if path is not None:
            raise BadInput(f"{path}: {text}") from None
        text = text.removeprefix("[0]").removeprefix(".").lstrip(": ")
        raise BadInput(named_as_options(text, Curve)) from None
    return [curve for template in read.test for curve in template]


def parse_measured_step(text: str, curves: Sequence[Curve]) -> "MeasuredStep":
    """Return the step that a user measured.

    Args:
        text: fields of the scenario in which it differs from what is asked about, and step_s, or
            steps_per_s of all workers.
        curves: what is asked about.

    Raises:
        BadInput: it is no scenario and figure; one line says why.
    """
    given = {}
    for part in text.split(","):
        name, equals, word = part.partition("=")
        if not equals:
            raise BadInput(f"--calibrate {text}: expected FIELD=VALUE,… such as {_EXAMPLE}")
        given[name.strip().replace("-", "_")] = word.strip()
    figures = {name: given.pop(name) for name in ("step_s", "steps_per_s") if name in given}
    if len(figures) != 1:
        raise BadInput(
            f"--calibrate {text}: expected one of step_s=SECONDS and steps_per_s=STEPS (of all "
            f"workers), such as {_EXAMPLE}"
        )
    ((name, figure),) = figures.items()
    numbers = {name: int(word) if word.isdecimal() else word for name, word in given.items()}
    fields = {**curves[0].model_dump(exclude={"mix"}), **numbers}
    curve = validated(Curve, fields, f"--calibrate {text}: ")
    if len(curve.workers) != 1:
        raise BadInput(
            f"--calibrate {text}: expected the number of workers that was measured, such as "
            f"{_EXAMPLE}; asked about are {', '.join(map(str, curve.workers))}"
        )
    try:
        value = float(figure)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise BadInput(f"--calibrate {text}: {name}: expected a number above 0, found {figure!r}")
    return curve, value if name == "step_s" else curve.workers[0] / value
