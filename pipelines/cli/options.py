"""A record as the options of a command."""

from collections.abc import Callable, Collection, Iterator
from functools import wraps
from inspect import Parameter, Signature, signature
from typing import Annotated, Any, Concatenate, Literal, ParamSpec, get_args, get_origin

import typer
from pydantic.fields import FieldInfo
from typer.models import ArgumentInfo

from forecasting.options import O, read_options

P = ParamSpec("P")


def takes(
    kind: type[O], without: Collection[str] = ()
) -> Callable[[Callable[Concatenate[O, P], None]], Callable[..., None]]:
    """Let a command take the described fields of a record as options, beside its own.

    Args:
        kind: what the command is called with.
        without: fields that it does not take.
    """

    def decorated(command: Callable[Concatenate[O, P], None]) -> Callable[..., None]:
        options = [
            _option(name, field)
            for name, field in kind.model_fields.items()
            if field.description and name not in without
        ]
        own = list(signature(command, eval_str=True).parameters.values())[1:]
        own = [each.replace(kind=Parameter.KEYWORD_ONLY) for each in own]
        arguments = [each for each in own if _is_argument(each)]
        others = [each for each in own if not _is_argument(each)]

        @wraps(command)
        def taking(**given: Any) -> None:
            asked = {option.name: given.pop(option.name) for option in options}
            command(read_options(kind, asked), **given)  # type: ignore[call-arg]

        taking.__signature__ = Signature([*arguments, *options, *others])  # type: ignore[attr-defined]
        return taking

    return decorated


def _is_argument(parameter: Parameter) -> bool:
    return isinstance(get_args(parameter.annotation)[-1], ArgumentInfo)


def _option(name: str, field: FieldInfo) -> Parameter:
    """Return a field as typer reads it: its record checks what it is, not typer."""
    default = ... if field.is_required() else field.default
    read_as: Any = str | None
    if field.annotation is bool:
        read_as = bool
    elif default == {}:
        read_as, default = list[str] | None, None
    elif any(_choices(field.annotation)):
        read_as = field.annotation
    elif default is not None:
        read_as, default = str, default if default is ... else str(default) if default else None
    flag = f"--{name.replace('_', '-')}"
    asked = typer.Option(*([flag] if read_as is bool else []), help=field.description)
    return Parameter(
        name,
        Parameter.KEYWORD_ONLY,
        default=Parameter.empty if default is ... else default,
        annotation=Annotated[read_as, asked],
    )


def _choices(annotation: object) -> Iterator[str]:
    if get_origin(annotation) is Literal:
        yield from get_args(annotation)
    for each in get_args(annotation):
        yield from _choices(each)
