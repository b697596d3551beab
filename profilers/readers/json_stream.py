"""JSON objects too large for memory, read member by member.

A trace is one object with one long array. Only one element of that array, and a chunk of text,
are in memory at a time.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from profilers.readers.imported import opened
from warehouse.records import BadInput

CHUNK = 1 << 20
LARGEST = 1 << 28
"""Characters of the largest single value; beyond it the file counts as broken."""
_MAY_GO_ON = ("", ".", "e", "E", "+", "-")
_DECODER = json.JSONDecoder(strict=False)


def members(path: Path, array: str) -> Iterator[tuple[str, Any]]:
    """Yield each member of the object in `path`; of the member `array`, each element.

    A file that is an array itself counts as the member `array`.

    Raises:
        BadInput: the file is no such JSON; the message names the line.
    """
    with opened(path) as file:
        text = _Text(path, file)
        if text.next() == "[":
            yield from ((array, element) for element in text.elements())
            return
        text.expect("{")
        while text.next() != "}":
            key = text.value()
            text.expect(":")
            if key == array and text.next() == "[":
                yield from ((array, element) for element in text.elements())
            else:
                yield key, text.value()
            if text.next() != "}":
                text.expect(",")


class _Text:
    """The part of a file that has not been parsed yet."""

    def __init__(self, path: Path, file: IO[str]) -> None:
        self.path = path
        self.file = file
        self.buffer = ""
        self.at = 0
        self.line = 1
        self.ended = False

    def next(self) -> str:
        """Return the next character that is not white space; empty at the end of the file."""
        while True:
            while self.at < len(self.buffer):
                character = self.buffer[self.at]
                if not character.isspace():
                    return character
                self.at += 1
            if self.ended:
                return ""
            self._fill(CHUNK)

    def expect(self, wanted: str) -> None:
        """Take the character `wanted`."""
        found = self.next()
        if found != wanted:
            raise self._error(f"expected {wanted!r}, found {found or 'the end of the file'!r}")
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
                found, end = _DECODER.raw_decode(self.buffer, self.at)
            except json.JSONDecodeError as error:
                if self.ended or len(self.buffer) > LARGEST:
                    raise self._error(error.msg) from None
            else:
                # A number at the end of the buffer may go on behind it: 1 of 1.5, or 1 of 1.
                if self.ended or self.buffer[end : end + 1] not in _MAY_GO_ON:
                    self.at = end
                    return found
            self._fill(more)
            more *= 2

    def _fill(self, size: int) -> None:
        self.line += self.buffer.count("\n", 0, self.at)
        read = self.file.read(size)
        self.buffer = self.buffer[self.at :] + read
        self.at = 0
        self.ended = not read

    def _error(self, what: str) -> BadInput:
        line = self.line + self.buffer.count("\n", 0, self.at)
        return BadInput(f"{self.path} line {line}: not JSON ({what}); is the file whole?")
