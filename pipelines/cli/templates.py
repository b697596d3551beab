"""What is asked about, from options or a file: templates as under `test:` of a study."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from pydantic import Field, ValidationError

from profilers.record_file import fault
from studies.curve import Curve
from studies.parts import Test
from warehouse import limits
from warehouse.documents import read_document
from warehouse.records import BadInput, Record


class Templates(Record):
    """Templates of scenarios."""

    test: tuple[Test, ...] = Field(max_length=limits.LISTED)


def of_options(options: Mapping[str, str | None]) -> list[Mapping[str, object]]:
    """Return the template that options make; several values of one are told apart by commas.

    PyTorch's strategy is all_reduce if none is given.

    Raises:
        BadInput: nothing is asked about.
    """
    given: dict[str, object] = {
        name: _number(text) if "," not in text else [_number(one) for one in text.split(",")]
        for name, text in options.items()
        if text is not None
    }
    if not given:
        raise BadInput(
            "nothing asked: give --dnn, --image-size, --batch-size, --worker, --workers and "
            "--link-mbps, or a file of templates; `stepcast predict --help` has examples"
        )
    if given.get("framework") == "pytorch":
        given.setdefault("strategy", "all_reduce")
    return [given]


def of_file(path: Path, options: Mapping[str, str | None]) -> list[Mapping[str, object]]:
    """Return the templates of a YAML file.

    Raises:
        BadInput: options are given too, or it holds no list of templates.
    """
    if not path.exists():
        raise BadInput(_no_file(f"{path}"))
    if both := [name for name, text in options.items() if text is not None]:
        option = both[0].replace("_", "-")
        raise BadInput(f"--{option} and {path}: expected either options or a file of templates")
    found = read_document(path, "templates")
    if (
        not found
        or not isinstance(found, list)
        or not all(isinstance(one, Mapping) for one in found)
    ):
        raise BadInput(
            f"{path}: expected a list of templates, as under test: of a study, found {found!r:.60}"
        )
    return found


def _no_file(name: str) -> str:
    """Say that what stands in place of a file is none, and how networks are named."""
    import networks

    known = {dnn for framework in ("tensorflow", "pytorch") for dnn in networks.names(framework)}
    if name in known:
        return f"{name} is a network: give it as `--dnn {name}`"
    return (
        f"{name} does not exist: expected a file of templates; a network is `--dnn NAME` "
        "(`stepcast networks` lists them), a model of your own package.module:function or hf:CONFIG"
    )


def curves_of(listed: Sequence[Mapping[str, object]], path: Path | None) -> list[Curve]:
    """Return the curves of templates.

    Raises:
        BadInput: naming the option, or the file and the field.
    """
    try:
        read = Templates.model_validate({"test": list(listed)})
    except ValidationError as error:
        # Where a whole template is wrong, its fields say no more than the message does.
        told = fault(error, Templates).removeprefix("test").partition(", found {")[0]
        if path is not None:
            raise BadInput(f"{path}: {told}") from None
        raise BadInput(_option(told.removeprefix("[0]").removeprefix(".").lstrip(": "))) from None
    return [curve for template in read.test for curve in template]


def _option(told: str) -> str:
    """Name the option that a field is."""
    field, colon, rest = told.partition(":")
    if colon and field.removesuffix("[0]") in Curve.model_fields:
        return f"--{field.replace('_', '-')}:{rest}"
    return told


def _number(text: str) -> object:
    """Return a whole number or a text, as YAML would."""
    return int(text) if text.strip().isdecimal() else text.strip()
