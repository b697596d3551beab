"""Options that several commands share, each explained once, and pictures that they ask for."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from warehouse.records import BadInput

if TYPE_CHECKING:
    from matplotlib.figure import Figure


Precision = Annotated[
    str | None,
    typer.Option(
        help="float32 (TF32 in cuDNN alone, as PyTorch has it), tf32, bfloat16 or float16 "
        "(autocast); also fp32, bf16, fp16."
    ),
]
Optimizer = Annotated[str | None, typer.Option(help="sgd (no momentum), momentum, adam or adamw.")]
Accumulate = Annotated[
    str | None, typer.Option(help="Passes of --batch-size whose gradients a step adds up; 1.")
]
MemoryFormat = Annotated[str | None, typer.Option(help="contiguous or channels_last.")]


def _length(text: str) -> int:
    """Return a number of words.

    Raises:
        BadInput: it is none.
    """
    if text.isdecimal() and int(text) > 0:
        return int(text)
    several = "; `stepcast sweep` takes a list of lengths (docs/sweep.md)" if "," in text else ""
    raise BadInput(f"--sequence-length: expected a whole number above 0, found {text!r}{several}")


SequenceLength = Annotated[
    int | None,
    typer.Option(
        help="Words of a sample, of hf:CONFIG; 128 if not given.", parser=_length, metavar="INTEGER"
    ),
]
Head = Annotated[
    str | None,
    typer.Option(
        help="What hf:CONFIG is trained as: a task such as text-generation, fill-mask, "
        "text-classification, image-classification, causal-lm, seq2seq-lm; none: no head. If not "
        "given, the class that the config names, else what its type is trained as."
    ),
]


def check_picture(path: Path | None) -> None:
    """Refuse the name of a picture that says a format which we do not write; None: there is none.

    Raises:
        BadInput: it ends in neither .png nor .svg.
    """
    if path is not None and path.suffix not in (".png", ".svg"):
        raise BadInput(f"--picture {path}: expected a name that ends in .png or .svg")


def write_picture(path: Path | None, draw: Callable[[], "Figure"], *, told: bool = True) -> None:
    """Draw a picture if it is asked for, write it, and print its path if that is to be told.

    Raises:
        BadInput: it cannot be written.
    """
    if path is None:
        return
    from reports import plots

    figure = draw()
    svg = path.suffix == ".svg"
    write(path, plots.to_svg(figure).encode() if svg else plots.to_png(figure, dpi=120), told=told)


def write(path: Path, content: bytes, *, told: bool = True) -> None:
    """Write a file, and print its path if that is to be told.

    Raises:
        BadInput: it cannot be written.
    """
    try:
        path.write_bytes(content)
    except OSError as error:
        raise BadInput(f"{path} cannot be written: {error.strerror}") from error
    if told:
        typer.echo(path)
