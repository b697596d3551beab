"""Mutations of seed inputs: of bytes in any format, of chunks (lines, packets), of tokens in text.

All randomness comes from the generator that is given, so that an input is known by its number.
"""

import gzip
import json
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from random import Random
from typing import Any, Literal

MOST_BYTES = 1 << 18
"""Of an input before gzip: 256 KiB show what is quadratic."""
_BITS = (7, 8, 15, 16, 31, 32, 53, 63, 64, 128)
_EDGES = (0, 1, *(2**bits + more for bits in _BITS for more in (-1, 0, 1)))
JSON_VALUES = (
    *(f"{sign * edge}".encode() for edge in _EDGES for sign in (1, -1)),
    *b"null true NaN Infinity 0.5 1e999 1e308 -1e-999 1_000 0x10 [] {} [[]] [null]".split(),
    *(b'""', b'"x"', b'"1"', b'"\\u0000"', b'"\\ud800"', b'"\\n"', b'{"a": 1}', b"", b" "),
    *(b"9" * 5000, b'"' + b"A" * 5000 + b'"', "\uff11".encode(), b"\xff\xfe", b"\x00", b"\x1b[31m"),
)
_ALIASES = b"".join(
    b"%c: &%c [%s]\n" % (c, c, b", ".join([b"*%c" % (c - 1)] * 10)) for c in b"bcdefghi"
)
YAML_VALUES = (
    *(b"~", b"&a [*a]", b"&a {a: *a}", b"*a", b"!!python/object/apply:os.getcwd []", b"!!binary x"),
    *(b"!!int x", b"!!timestamp x", b".nan", b"2001-99-99", b"0b", b"1:30:00", b"<<: [1]", b"---"),
    *(b"{[1]: 2}", b"{1: 2}", b"? [1]\n: 2", b"%YAML 9.9", b"| \n x"),
    b"a: &a [x, x, x, x, x, x, x, x, x, x]\n" + _ALIASES,
)
"""What only YAML knows: anchors, tags, dates; the last is a billion strings."""
_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*"|[\w.+-]+', re.DOTALL)
_HEAD_BYTES = 72
"""Of a chunk of a binary format, in which its numbers stand."""


@dataclass(frozen=True)
class Mutator:
    """Makes inputs of seeds.

    `split` cuts an input into chunks, `values` are tokens to put into text; a format without any is
    binary.
    """

    seeds: Sequence[bytes]
    split: Callable[[bytes], list[bytes]] = lambda content: content.splitlines(keepends=True)
    values: Sequence[bytes] = JSON_VALUES
    packed: bool = True
    most_bytes: int = MOST_BYTES

    def __call__(self, random: Random) -> bytes:
        """Return the next input."""
        content = random.choice(self.seeds)
        operations = (
            (_token_changed, _token_changed, _json_changed, _bytes_changed, _chunks_changed)
            if self.values
            else (_number_written, _counted_up, _bytes_changed, _chunks_changed)
        )
        for _ in range(1 + min(int(random.expovariate(0.7)), 6)):
            content = random.choice(operations)(self, content, random)[: self.most_bytes]
        if random.random() < 1 / 500 and content:
            start = random.randrange(len(content))
            part = content[start : start + random.choice((1, 20, 500))]
            content = content[:start] + part * (self.most_bytes // len(part)) + content[start:]
            content = content[: self.most_bytes]
        if self.packed and random.random() < 1 / 20:
            content = gzip.compress(content, 1)
            content = random.choice((content, _bytes_changed(self, content, random)))
        return content


def _bytes_changed(_: Mutator, content: bytes, random: Random) -> bytes:
    """Flip a bit; overwrite, insert, delete or repeat bytes; cut the rest off."""
    start = random.randrange(len(content) + 1)
    end = min(start + random.choice((1, 4, 32, 32, len(content))), len(content))
    fresh = random.choice((random.randbytes(random.choice((1, 4, 16))), bytes(8), b"\xff" * 8))
    match random.randrange(6):
        case 0 if start < len(content):
            flipped = bytes([content[start] ^ 1 << random.randrange(8)])
            return content[:start] + flipped + content[start + 1 :]
        case 1:
            return content[:start] + fresh + content[start + len(fresh) :]
        case 2:
            return content[:start] + fresh + content[start:]
        case 3:
            return content[:start] + content[end:]
        case 4:
            return content[:end] + content[start:end] * random.choice((1, 2, 20)) + content[end:]
        case _:
            return content[:start]


def _chunks_changed(of: Mutator, content: bytes, random: Random) -> bytes:
    """Delete, repeat, move or swap chunks, or take one of another seed."""
    chunks = of.split(content)
    if not chunks:
        return content
    i, j = random.randrange(len(chunks)), random.randrange(len(chunks))
    match random.randrange(5):
        case 0:
            del chunks[i : i + 1 + int(random.expovariate(1))]
        case 1:
            chunks[i:i] = [chunks[j]] * (1 + int(random.expovariate(0.5)))
        case 2:
            chunks.insert(i, chunks.pop(j))
        case 3:
            chunks[i], chunks[j] = chunks[j], chunks[i]
        case _:
            chunks.insert(i, random.choice(of.split(random.choice(of.seeds)) or [b""]))
    return b"".join(chunks)


def _token_at(content: bytes, random: Random) -> tuple[int, int]:
    start = random.randrange(len(content) + 1)
    match = _TOKEN.search(content, start) or _TOKEN.search(content)
    return match.span() if match else (0, 0)


def _token_changed(of: Mutator, content: bytes, random: Random) -> bytes:
    """Put a value, another token or deep nesting in the place of a token; quote it or grow it."""
    start, end = _token_at(content, random)
    token, other = content[start:end], random.choice((content, random.choice(of.seeds)))
    depth = random.choice((60, 70, 200, 1_100, 20_000))
    more = random.choice((b"0", b"9", b"000000", b"e9", b"e300", b".5"))
    swapped = token.strip(b'"') if token.startswith(b'"') else b'"' + token + b'"'
    deep = random.choice((b"[" * depth + b"]" * depth, b'{"a":' * depth + b"1" + b"}" * depth))
    new = random.choices(
        (random.choice(of.values), other[slice(*_token_at(other, random))], swapped, deep),
        (10, 5, 3, 0.3),
    )[0]
    return content[:start] + random.choice((new, new, new, token + more)) + content[end:]


def _json_changed(of: Mutator, content: bytes, random: Random) -> bytes:
    """Replace, wrap, repeat or drop a value of a JSON document, or move it elsewhere in it."""
    with suppress(ValueError, RecursionError, IndexError, TypeError):
        document = json.loads(content)
        places: list[tuple[Any, Any]] = []
        inner = [document]
        while inner and len(places) < 10_000:
            holder = inner.pop()
            keys = holder if isinstance(holder, dict) else range(len(holder))
            places += [(holder, key) for key in keys]
            inner += [holder[key] for key in keys if isinstance(holder[key], dict | list)]
        (holder, key), (other, other_key) = random.choice(places), random.choice(places)
        value = holder[key]
        wrapped = random.choice(([value], {"a": value}, [value] * 3, None, "x", 2**63, 1e300, []))
        if random.random() < 0.3:
            del holder[key]
        else:
            holder[key] = random.choice((wrapped, json.loads(json.dumps(other[other_key]))))
        return json.dumps(document).encode()
    return _token_changed(of, content, random)


def _number_written(of: Mutator, content: bytes, random: Random) -> bytes:
    """Write the edge of an integer type, or a number near the old one, into the head of a chunk."""
    chunks = of.split(content)
    if not content:
        return content
    i, width = random.randrange(len(chunks)), random.choice((1, 2, 3, 4))
    start = random.randrange(max(min(len(chunks[i]), _HEAD_BYTES) - width, 1))
    order: Literal["big", "little"] = random.choice(("big", "big", "little"))
    old = int.from_bytes(chunks[i][start : start + width], order)
    near = old + random.choice((-1000, -10, -1, 1, 10, 1000, 2 ** (8 * width - 1)))
    new = random.choice((near, random.choice(_EDGES), len(chunks[i]))) % 2 ** (8 * width)
    chunks[i] = chunks[i][:start] + new.to_bytes(width, order) + chunks[i][start + width :]
    return b"".join(chunks)


def _counted_up(of: Mutator, content: bytes, random: Random) -> bytes:
    """Repeat a chunk many times, with one of the numbers in its head counted up or down."""
    chunks = of.split(content)
    i, copies = random.randrange(len(chunks) or 1), random.choice((2, 5, 20, 100))
    if i >= len(chunks) or len(chunks[i]) < 8:
        return content
    start = random.randrange(min(len(chunks[i]), _HEAD_BYTES) - 4)
    step = random.choice((0, 1, -1, 2, len(chunks[i]), -len(chunks[i]), 2**20, 2**31))
    number = int.from_bytes(chunks[i][start : start + 4])
    numbers = [(number + copy * step) % 2**32 for copy in range(copies)]
    if random.random() < 0.3:
        random.shuffle(numbers)
    made = [chunks[i][:start] + n.to_bytes(4) + chunks[i][start + 4 :] for n in numbers]
    return b"".join((*chunks[:i], *made, *chunks[i:]))
