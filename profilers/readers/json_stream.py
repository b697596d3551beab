"""JSON objects too large for memory, read member by member.

A trace is one object with one long array. Only one element of that array, and a chunk of text,
are in memory at a time.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, TypeVar

import msgspec

from profilers.readers.contract import open_text
from warehouse import limits
from warehouse.records import BadInput

CHUNK = 1 << 20
_MAY_GO_ON = ("", ".", "e", "E", "+", "-")
_NOT_SPACE = re.compile(r"[^ \t\n\r]")
# NaN is no JSON; as null it is a missing value, and of another kind where a number is needed.
_DECODER = json.JSONDecoder(strict=False, parse_constant=lambda _: None)

T = TypeVar("T")


class Members:
    """The members of the object in a JSON file, one after the other.

    Iterating yields name and value of each member; of the member `array`, name and each element. A
    file that is an array itself counts as the member `array`.

    Raises:
        BadInput: while iterating, the file is no such JSON, or goes on behind its end; the message
            names the line.
    """

    def __init__(self, path: Path, array: str) -> None:
        self._path, self._array = path, array
        self._text: _Text | None = None

    def __iter__(self) -> Iterator[tuple[str, Any]]:
        with open_text(self._path) as file:
            self._text = text = _Text(self._path, file)
            yield from self._members(text)
            if behind := text.next():
                raise text.error(f"expected the end of the file, found {behind!r}")

    def __str__(self) -> str:
        """Say the file, and the line in which the value last yielded begins."""
        return self._text.where if self._text else f"{self._path}"

    def _members(self, text: "_Text") -> Iterator[tuple[str, Any]]:
        if text.next() == "[":
            yield from ((self._array, element) for element in text.elements())
            return
        text.expect("{")
        while text.next() != "}":
            key = text.value()
            if not isinstance(key, str):
                raise text.error("expected the name of a member")
            text.expect(":")
            if key == self._array and text.next() == "[":
                yield from ((key, element) for element in text.elements())
            else:
                yield key, text.value()
            if text.next() != "}":
                text.expect(",")
        text.expect("}")


def documents(path: Path) -> Iterator[tuple[Any, str]]:
    """Yield each JSON value of a file that holds several behind each other, and where it begins.

    Of a list, its elements are yielded.

    Raises:
        BadInput: while iterating, what comes is no JSON, or is longer than `limits.JSON_BYTES`.
    """
    with open_text(path) as file:
        text = _Text(path, file, limits.JSON_BYTES)
        while first := text.next():
            for value in text.elements() if first == "[" else (text.value(),):
                yield value, text.where


def convert_value(value: object, kind: type[T], where: object) -> T:
    """Return a parsed JSON value as `kind`: a `msgspec.Struct` or a type that msgspec knows.

    Foreign values are checked here, once, so that what comes after can rely on their types.

    Raises:
        BadInput: it is not of that kind; the message begins with `where` and names the field.
    """
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise BadInput(f"{where}: {_explained(error)}") from None
    except UnicodeEncodeError:
        raise BadInput(f"{where}: a text holds half a character (a lone surrogate)") from None
    except RecursionError:
        raise BadInput(f"{where}: lists inside each other deeper than anything known") from None


def check_depth(value: object, where: object) -> None:
    """Refuse lists and objects inside each other deeper than `limits.DEPTH`.

    Raises:
        BadInput: they are.
    """
    level = [value]
    for _ in range(limits.DEPTH + 1):
        level = [
            inner
            for value in level
            if isinstance(value, list | dict)
            for inner in (value.values() if isinstance(value, dict) else value)
        ]
        if not level:
            return
    raise BadInput(f"{where}: lists or objects inside each other deeper than {limits.DEPTH}")


def _explained(error: msgspec.ValidationError) -> str:
    """Turn "Expected `int`, got `str` - at `$.args.bytes`" into our words."""
    what, _, place = str(error).partition(" - at ")
    field = place.strip("`").removeprefix("$").removeprefix(".")
    message = what[0].lower() + what[1:]
    return f"{field}: {message}" if field else message


class _Text:
    """The part of a file that has not been parsed yet."""

    def __init__(self, path: Path, file: IO[str], most: int | None = None) -> None:
        self.path = path
        self.file = file
        self.most = most or limits.VALUE_CHARACTERS
        self.buffer = ""
        self.at = 0
        self.began = 0
        self.line = 1
        self.ended = False

    @property
    def where(self) -> str:
        """The file, and the line in which the last value begins."""
        return f"{self.path} line {self.line + self.buffer.count(chr(10), 0, self.began)}"

    def next(self) -> str:
        """Return the next character that is not white space; empty at the end of the file."""
        while True:
            if match := _NOT_SPACE.search(self.buffer, self.at):
                self.at = match.start()
                return match[0]
            if self.ended:
                return ""
            self.at = len(self.buffer)
            self._fill(CHUNK)

    def expect(self, wanted: str) -> None:
        """Take the character `wanted`."""
        character = self.next()
        if character != wanted:
            raise self.error(f"expected {wanted!r}, found {character or 'the end of the file'!r}")
        self.at += 1

    def elements(self) -> Iterator[Any]:
        """Yield the elements of the array that begins here."""
        self.expect("[")
        while self.next() != "]":
            yield self.value()
            if self.next() != "]":
                self.expect(",")
        self.expect("]")

    def value(self) -> Any:
        """Return the value that begins here."""
        self.next()
        more = CHUNK
        while True:
            try:
                value, end = _DECODER.raw_decode(self.buffer, self.at)
            except json.JSONDecodeError as error:
                if self.ended:
                    raise self.error(error.msg) from None
            except (RecursionError, ValueError) as error:
                raise self.error(str(error)) from None
            else:
                # A number at the end of the buffer may go on behind it: 1 of 1.5, or 1 of 1.
                if self.ended or self.buffer[end : end + 1] not in _MAY_GO_ON:
                    self.began, self.at = self.at, end
                    return value
            if len(self.buffer) - self.at > self.most:
                raise self.error(f"a value longer than {self.most:,} characters")
            self._fill(more)
            more *= 2

    def error(self, what: str) -> BadInput:
        """Return that what is here is no JSON."""
        line = self.line + self.buffer.count("\n", 0, self.at)
        return BadInput(f"{self.path} line {line}: not JSON ({what}); is the file whole?")

    def _fill(self, size: int) -> None:
        self.line += self.buffer.count("\n", 0, self.at)
        read = self.file.read(size)
        self.buffer = self.buffer[self.at :] + read
        self.began = self.at = 0
        self.ended = not read
