"""Node types that are tried in turn: a study goes on with the next where one is not to be had.

The next is another node type, so what is measured of it is of other scenarios: the study that goes
on is a file of its own, with another name, in which the one stands wherever the other did.
"""

import re
from pathlib import Path

import yaml

from profilers.renting.book import REFUSED, UNANSWERED, Entries
from studies.rounds import Round
from studies.study import read_study
from warehouse.documents import read_document
from warehouse.durable_files import write_text
from warehouse.records import BadInput

FOLDER = "instead"
"""Of the home: studies that go on with another type."""
_OF_NODES = ("worker", "server", "mix")
_PART = r"[A-Za-z0-9._-]"


def unavailable_node_type(entries: Entries) -> str | None:
    """Return the node type whose last launch nobody had instances for, if the last one failed so.

    Places are asked in their order, and the last of them had none either.
    """
    if not entries.intents:
        return None
    last = list(entries.intents.values())[-1]
    refused = entries.refused.get(last.token)
    is_full = refused is not None and refused.code not in (REFUSED, UNANSWERED)
    return last.node_type if is_full else None


def has_begun(round_: Round, node_type: str) -> bool:
    """Tell whether runs of a round have been on a node type: all others then are too."""
    needs = (need for need in round_.needs if any(g.node_type == node_type for g in need.nodes))
    return any(round_.run_of(need) is not None for need in needs)


def write_fallback_study(study: Path, before: str, after: str, home: Path) -> Path | None:
    """Write a study with another node type in place of one; return its file.

    None where that is no study: it has scenarios of the other type already.
    """
    document = read_document(study, "study")
    if not isinstance(document, dict):
        return None
    name = f"{str(document['name']).removesuffix(f'.{before}')}.{after}"
    parts = {key: _replaced(part, before, after) for key, part in document.items()}
    file = home / FOLDER / f"{name}.yaml"
    file.parent.mkdir(parents=True, exist_ok=True)
    write_text(file, yaml.safe_dump({**parts, "name": name}, sort_keys=False))
    try:
        read_study(file)
    except BadInput:
        file.unlink()
        return None
    return file


def _replaced(value: object, before: str, after: str, *, of_nodes: bool = False) -> object:
    """Return a part of a study's document, changed where it names nodes."""
    if isinstance(value, dict):
        return {
            key: _replaced(part, before, after, of_nodes=key in _OF_NODES)
            for key, part in value.items()
        }
    if isinstance(value, list):
        return [_replaced(part, before, after, of_nodes=of_nodes) for part in value]
    if of_nodes and isinstance(value, str):
        return re.sub(f"(?<!{_PART}){re.escape(before)}(?!{_PART})", after, value)
    return value
