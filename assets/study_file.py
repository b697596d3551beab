"""Reading a study file, and saying in one line what is wrong with one."""

from difflib import get_close_matches
from pathlib import Path

import yaml
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from assets.job import Job
from assets.study import Again, AllReduce, Compute, Iterate, Links, Measure, Profile, Study
from warehouse.records import BadInput


def read_study(path: Path) -> Study:
    """Read a study file.

    Raises:
        BadInput: it is missing, no YAML, or has a wrong key or value; the message names the file
            and the field.
    """
    try:
        content = yaml.safe_load(path.read_text())
    except FileNotFoundError:
        near = sorted(str(file) for file in path.parent.glob("*.yaml"))
        hint = f"; there are {', '.join(near)}" if near else ""
        raise BadInput(f"study {path} does not exist{hint}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"study {path} cannot be read: {error}") from None
    except yaml.YAMLError as error:
        raise BadInput(f"{path}: not valid YAML: {' '.join(str(error).split())}") from None
    if not isinstance(content, dict):
        expected = ", ".join(Study.model_fields)
        raise BadInput(f"{path}: expected a mapping with {expected}; found {content!r:.60}")
    try:
        return Study.model_validate(content)
    except ValidationError as error:
        raise BadInput(f"{path}: {_first(error)}") from None


def _first(error: ValidationError) -> str:
    """Say in one line what pydantic found first, and how much else.

    A misspelt key also makes the right one missing: only the cause is told.
    """
    details = error.errors(include_url=False)
    misspelt = {one["loc"][:-1] for one in details if one["type"] == "extra_forbidden"}
    causes = [one for one in details if one["type"] != "missing" or one["loc"][:-1] not in misspelt]
    first, more = causes[0], len(causes) - 1
    return _explained(first) + (f" (and {more} more)" if more else "")


def _explained(detail: ErrorDetails) -> str:
    field = _dotted(detail["loc"])
    if detail["type"] == "extra_forbidden":
        *parents, key = detail["loc"]
        keys = list(_model_at(parents).model_fields)
        near = get_close_matches(str(key), keys, n=1, cutoff=0.5)
        hint = f"did you mean {near[0]}?" if near else f"the keys are {', '.join(keys)}"
        return f"{field}: no such key; {hint}"
    if detail["type"] == "missing":
        return f"{field}: missing, and it has no default"
    message = detail["msg"].removeprefix("Value error, ")
    message = message[0].lower() + message[1:] if not message.startswith("W ") else message
    found = "" if "found" in message else f", found {detail['input']!r:.60}"
    return f"{field}: {message}{found}" if field else message


def _dotted(location: tuple[int | str, ...]) -> str:
    parts = (f"[{part}]" if isinstance(part, int) else f".{part}" for part in location)
    return "".join(parts).removeprefix(".")


def _model_at(parents: list[int | str]) -> type[BaseModel]:
    sections: dict[str, type[BaseModel]] = {
        "links": Links,
        "profile": Profile,
        "allreduce": AllReduce,
        "compute": Compute,
        "measure": Measure,
        "iterate": Iterate,
        "again": Again,
        "jobs": Job,
    }
    return sections[str(parents[0])] if parents else Study
