"""YAML that people write, read within limits: what is wrong is told in one line, with its place."""

from pathlib import Path
from typing import Any, NoReturn

import yaml
from yaml.composer import Composer
from yaml.events import AliasEvent

from warehouse import limits
from warehouse.records import BadInput, error_context

_LONGEST_NUMBER = 64
"""Characters of a number: what is longer is no amount of anything."""
_TAG = "tag:yaml.org,2002:"
_KINDS = {_TAG + kind for kind in ("bool", "float", "int", "map", "merge", "null", "seq", "str")}
_TIMESTAMP = _TAG + "timestamp"


def read_document(path: Path, what: str) -> object:
    """Return what a YAML file holds: mappings, lists, texts, numbers, dates.

    Args:
        path: the file.
        what: what people call such a file: "study".

    Raises:
        BadInput: it is missing, no file of UTF-8 text, longer, deeper or larger than
            `warehouse.limits` says, or no YAML; or a key is no text, or is given twice.
    """
    text = _text(path, what)
    loader = _Loader(path, text)
    try:
        return loader.get_single_data()
    except yaml.reader.ReaderError as error:
        line = text.encode().count(b"\n", 0, error.position) + 1
        raise BadInput(
            f"{path} line {line}: the character {error.character:#x} is no text"
        ) from None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        # What ends too early is marked a line below the last one.
        last_line = len(text.splitlines())
        place = f" line {min(mark.line + 1, last_line)}" if mark else ""
        problem = " ".join(filter(None, (error.context, error.problem)))
        raise BadInput(f"{path}{place}: not valid YAML: {problem}") from None
    finally:
        loader.dispose()


def _text(path: Path, what: str) -> str:
    with error_context(f"{what} {path} cannot be read", OSError):
        if not path.exists():
            raise BadInput(f"{what} {path} does not exist")
        if not path.is_file():
            kind = "a folder" if path.is_dir() else "no regular file"
            raise BadInput(f"{what} {path} is {kind}; expected a YAML file")
        with path.open("rb") as file:
            content = file.read(limits.DOCUMENT_BYTES + 1)
    if len(content) > limits.DOCUMENT_BYTES:
        raise BadInput(
            f"{what} {path} is longer than {limits.DOCUMENT_BYTES / 2**20:g} MiB; is it a YAML "
            "file that somebody wrote?"
        )
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise BadInput(f"{path} line {line}: not UTF-8 text; save it as such") from None


class _Loader(Composer, yaml.CSafeLoader):
    """Bounds what aliases stand for as it is composed, before anything is made of it.

    libyaml parses, which takes a fifth of the time that Python takes; nodes are composed here.
    """

    def __init__(self, path: Path, text: str) -> None:
        yaml.CSafeLoader.__init__(self, text)
        Composer.__init__(self)
        self._path = path
        self._depth = 0
        self._extents: dict[int, tuple[int, int]] = {}
        """Values in each node, and how deep they are, with all that aliases stand for."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        """Compose a node, and refuse what goes beyond a limit."""
        event: Any = self.peek_event()
        if isinstance(event, AliasEvent):
            node = super().compose_node(parent, index)
            if id(node) not in self._extents:
                self._refuse(event, f"*{event.anchor} stands for what it is a part of")
            return node
        self._depth += 1
        # A text at the bottom is no list or mapping.
        if self._depth > limits.DEPTH + 1:
            self._refuse(event, f"lists or mappings inside each other deeper than {limits.DEPTH}")
        node = super().compose_node(parent, index)
        self._depth -= 1
        self._check(node)
        return node

    def construct_object(self, node: Any, deep: bool = False) -> Any:
        """Make the value of a node."""
        number = node.tag in (_TAG + "int", _TAG + "float")
        if number and len(node.value) > _LONGEST_NUMBER:
            self._refuse(node, f"a number of {len(node.value)} characters")
        try:
            return super().construct_object(node, deep)
        except (ValueError, LookupError, AttributeError, TypeError, ArithmeticError):
            kind = node.tag.removeprefix(_TAG)
            self._refuse(node, f"{node.value!r:.60} is no {kind}; put it in quotes if it is text")

    def _check(self, node: Any) -> None:
        if node.tag not in _KINDS and node.tag != _TIMESTAMP:
            self._refuse(node, f"{node.tag.replace(_TAG, '!!')} is of no use here; leave it out")
        if isinstance(node, yaml.MappingNode):
            self._check_keys(node)
            parts = [part for pair in node.value for part in pair]
        elif isinstance(node, yaml.SequenceNode):
            parts = node.value
        else:
            if any(
                character == "\0" or "\ud800" <= character <= "\udfff" for character in node.value
            ):
                self._refuse(node, f"{node.value!r:.60} has a character that is no text")
            self._extents[id(node)] = (1, 0)
            return
        inside = [self._extents[id(part)] for part in parts]
        count = 1 + sum(values for values, _ in inside)
        depth = 1 + max((deep for _, deep in inside), default=0)
        if count > limits.DOCUMENT_NODES:
            self._refuse(node, f"more than {limits.DOCUMENT_NODES:,} values, aliases followed")
        if depth > limits.DEPTH:
            self._refuse(node, f"lists or mappings inside each other deeper than {limits.DEPTH}")
        self._extents[id(node)] = (count, depth)

    def _check_keys(self, node: Any) -> None:
        lines: dict[str, int] = {}
        for key, _ in node.value:
            if key.tag not in (_TAG + "str", _TAG + "merge"):
                kind = key.tag.removeprefix(_TAG)
                self._refuse(key, f"the key {key.value!r:.60} is a {kind}; put it in quotes")
            if key.value in lines:
                first = f"it is in line {lines[key.value]} too"
                self._refuse(key, f"the key {key.value:.60} is given twice, {first}; keep one")
            lines[key.value] = key.start_mark.line + 1

    def _refuse(self, at: Any, why: str) -> NoReturn:
        raise BadInput(f"{self._path} line {at.start_mark.line + 1}: {why}")
