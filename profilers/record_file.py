"""A record as a YAML file: reading it, and saying in one line what is wrong with one."""

from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import TypeVar, get_args

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from warehouse.documents import read_document
from warehouse.fields import SPELLINGS
from warehouse.records import BadInput, Record

R = TypeVar("R", bound=Record)


def read_record(path: Path, kind: type[R], what: str) -> R:
    """Read a file as a record.

    Args:
        path: a YAML file.
        kind: what it holds.
        what: what people call such a file: "study".

    Raises:
        BadInput: as `read_document`, or it has a wrong key or value; the message names the file
            and the field.
    """
    if not path.exists():
        near = sorted(str(file) for file in path.parent.glob("*.yaml"))
        hint = f"; there are {', '.join(near)}" if near else ""
        raise BadInput(f"{what} {path} does not exist{hint}")
    content = read_document(path, what)
    if not isinstance(content, dict):
        expected = ", ".join(kind.model_fields)
        raise BadInput(f"{path}: expected a mapping with {expected}; found {content!r:.60}")
    return validated(kind, content, f"{path}: ")


def validated(kind: type[R], fields: object, where: str = "", within: Sequence[str] = ()) -> R:
    """Return a record of its fields; `where` begins the message, `within` the name of a field.

    Raises:
        BadInput: they are none of this kind.
    """
    try:
        return kind.model_validate(fields)
    except ValidationError as error:
        raise BadInput(f"{where}{fault(error, kind, within)}") from None


def fault(error: ValidationError, kind: type[Record], within: Sequence[str] = ()) -> str:
    """Say in one line what pydantic found first, and how much else.

    A misspelt key also makes the right one missing, and wrong items make a list too short: only the
    cause is told.

    Args:
        error: what pydantic raised.
        kind: what it was to be.
        within: where in its file it is.
    """
    details = error.errors(include_url=False)
    causes = [detail for detail in details if not _follows(detail, details)]
    first, parents = causes[0], causes[0]["loc"][:-1]
    missing = [
        str(detail["loc"][-1])
        for detail in causes
        if first["type"] == detail["type"] == "missing" and detail["loc"][:-1] == parents
    ]
    if len(missing) > 1:  # one at a time would be a question for each
        text = f"{_dotted((*within, *parents, ', '.join(missing)))}: missing, and have no default"
    else:
        text = _explained(first, kind, within)
    more = len(causes) - max(len(missing), 1)
    return text + (f" (and {more} more)" if more else "")


def _follows(detail: ErrorDetails, others: Sequence[ErrorDetails]) -> bool:
    """Tell whether an error is only due to another one."""
    place = detail["loc"]
    if detail["type"] == "missing":
        return any(
            other["type"] == "extra_forbidden" and other["loc"][:-1] == place[:-1]
            for other in others
        )
    within = (other["loc"][: len(place)] for other in others if len(other["loc"]) > len(place))
    return detail["type"] == "too_short" and place in within


def _explained(detail: ErrorDetails, kind: type[Record], within: Sequence[str]) -> str:
    field = _dotted((*within, *detail["loc"]))
    if detail["type"] == "extra_forbidden":
        *parents, key = detail["loc"]
        fields = _record_at(parents, kind).model_fields.items()
        keys = [name for name, field_info in fields if not field_info.exclude]
        near = get_close_matches(str(key), keys, n=1, cutoff=0.5)
        hint = f"did you mean {near[0]}?" if near else f"the keys are {', '.join(keys)}"
        return f"{field}: no such key; {hint}"
    if detail["type"] == "missing":
        return f"{field}: missing, and it has no default"
    message = detail["msg"].removeprefix("Value error, ")
    message = message[0].lower() + message[1:] if not message.startswith("W ") else message
    # What is wrong with a whole record, and what to do about it, the message itself says.
    is_record = detail["type"] == "value_error" and isinstance(detail["input"], Mapping)
    tells = "found" in message or "; " in message or is_record
    value_text = "" if tells else f", found {detail['input']!r:.60}"
    if words := SPELLINGS.get(detail.get("ctx", {}).get("pattern", "")):
        value_text += f"; {words}"
    return f"{field}: {message}{value_text}" if field else message


def _dotted(location: Sequence[int | str]) -> str:
    parts = (f"[{part}]" if isinstance(part, int) else f".{part}" for part in location)
    return "".join(parts).removeprefix(".")


def _record_at(location: Sequence[int | str], kind: type[Record]) -> type[Record]:
    """Return what is at a place within a record: names of fields, and keys of what fields hold."""
    for part in location:
        field = kind.model_fields.get(str(part))
        kind = next(_records_in(field.annotation), kind) if field else kind
    return kind


def _records_in(annotation: object) -> Iterator[type[Record]]:
    if isinstance(annotation, type) and issubclass(annotation, Record):
        yield annotation
    for argument in get_args(annotation):
        yield from _records_in(argument)
