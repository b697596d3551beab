"""Mutations of seed inputs: of bytes in any format, of chunks (lines, packets), of tokens in text.

All randomness comes from the generator that is given, so that an input is known by its number.
"""

import gzip
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random

Split = Callable[[bytes], list[bytes]]
"""Cuts an input into chunks; together they are the input."""
Operation = Callable[[bytes, Random], bytes]

MOST_BYTES = 1 << 18
"""Of an input before gzip: 256 KiB show what is quadratic."""
_PACKED, _GROWN, _DEEP = 1 / 20, 1 / 1000, 1 / 100
_BITS = (7, 8, 15, 16, 24, 31, 32, 53, 63, 64, 128)
_EDGES = (0, 1, *(2**bits + more for bits in _BITS for more in (-1, 0, 1)))
_NUMBERS = [str(sign * edge).encode() for edge in _EDGES for sign in (1, -1)]
_VALUES = [
    *_NUMBERS,
    *b"null true false NaN Infinity -Infinity nan inf 0.0 -0.0 0.5".split(),
    *b"1e999 -1e999 1e-999 1e308".split(),
    b"9" * 5000,
    b"1_000",
    b"0x10",
    "\uff11".encode(),
    b'""',
    b'"x"',
    b'"1"',
    b'"1e999"',
    b'"\\u0000"',
    b'"\\ud800"',
    b'"\\n"',
    b'"' + b"A" * 5000 + b'"',
    "\U0001f600".encode(),
    b"\xff\xfe",
    b"\x00",
    b"\x1b[31m",
    b"[]",
    b"{}",
    b"[[]]",
    b"[{}]",
    b"[null]",
    b'{"a": 1}',
    b"",
    b" ",
]
YAML_VALUES = [
    b"~",
    b"&a [*a]",
    b"&a {a: *a}",
    b"*a",
    b"[&a [1, 1], &b [*a, *a]]",
    b"!!python/object/apply:os.getcwd []",
    b"!!binary eA==",
    b"!!binary x",
    b"!!set {a, b}",
    b"!!omap [a: 1]",
    b"!!int x",
    b'!!float ""',
    b"!!timestamp x",
    b".nan",
    b".inf",
    b"2001-01-01",
    b"2001-99-99",
    b"2001-01-01 00:00:00 +99:99",
    b"0b11",
    b"0b",
    b"0x",
    b"1:30:00",
    b"? [1]\n: 2",
    b"<<: [1]",
    b"{<<: {a: 1}}",
    b"{[1]: 2}",
    b"{{}: 2}",
    b"{1: 2}",
    b"=",
    b"---",
    b"%YAML 9.9",
    b"| \n x",
    b"a: &a ["
    + b"x, " * 9
    + b"x]\n"
    + b"".join(
        b"%c: &%c [%s]\n" % (c, c, b", ".join([b"*%c" % (c - 1)] * 10)) for c in b"bcdefghi"
    ),
]
"""What only YAML knows: anchors, tags, dates; the last is a billion strings."""
_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*"|[\w.+-]+', re.DOTALL)
_KEY = re.compile(rb'"[^"]*"\s*:\s*')
_BRACKET = re.compile(rb"[\[\]{}]")


def lines(content: bytes) -> list[bytes]:
    """Cut into lines."""
    return content.splitlines(keepends=True)


@dataclass(frozen=True)
class Mutator:
    """Makes inputs of seeds.

    `of_format` are operations that know the format; they are as likely as all others together.
    `values` are tokens to put into text; a format without is binary.
    """

    seeds: Sequence[bytes]
    split: Split = lines
    values: Sequence[bytes] = tuple(_VALUES)
    of_format: Sequence[Operation] = ()
    packed: bool = True
    grown: float = _GROWN
    most_bytes: int = MOST_BYTES

    def __call__(self, random: Random) -> bytes:
        """Return the next input."""
        content = random.choice(self.seeds)
        for _ in range(1 + min(int(random.expovariate(0.7)), 6)):
            content = self._operation(random)(content, random)[: self.most_bytes]
        if random.random() < self.grown:
            content = self._grown(content, random)
        if self.packed and random.random() < _PACKED:
            content = gzip.compress(content, 1)
            if random.random() < 0.5:
                content = random.choice(_OF_BYTES)(content, random)
        return content

    def _operation(self, random: Random) -> Operation:
        if self.of_format and random.random() < 0.5:
            return random.choice(self.of_format)
        if self.values and random.random() < 0.6:
            return random.choice((self._token, self._token, *_OF_TEXT, self._deep))
        return random.choice((*_OF_BYTES, self._splice, self._chunks, self._chunks))

    def _token(self, content: bytes, random: Random) -> bytes:
        """Put a token in the place of another: a value, or another token of a seed."""
        start, end = _token_at(content, random)
        if random.random() < 0.6:
            value = random.choice(self.values)
        else:
            source = content if random.random() < 0.7 else random.choice(self.seeds)
            value = source[slice(*_token_at(source, random))]
        return content[:start] + value + content[end:]

    def _splice(self, content: bytes, random: Random) -> bytes:
        other = random.choice(self.seeds)
        return content[: _place(content, random)] + other[_place(other, random) :]

    def _chunks(self, content: bytes, random: Random) -> bytes:
        """Delete, repeat, move or swap chunks, or take one of another seed."""
        chunks = self.split(content)
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
                chunks.insert(i, random.choice(self.split(random.choice(self.seeds)) or [b""]))
        return b"".join(chunks)

    def _deep(self, content: bytes, random: Random) -> bytes:
        """Put lists or objects inside each other in the place of a token."""
        if random.random() > _DEEP * 10:
            return content
        start, end = _token_at(content, random)
        depth = random.choice((60, 70, 200, 1_100, 20_000))
        opening, closing = random.choice(((b"[", b"]"), (b'{"a":', b"}")))
        return content[:start] + opening * depth + b"1" + closing * depth + content[end:]

    def _grown(self, content: bytes, random: Random) -> bytes:
        """Repeat a chunk, or a stretch of bytes, until the input is as long as one may be."""
        chunks = self.split(content)
        room = self.most_bytes - len(content)
        if not content or not chunks or room <= 0:
            return content
        if random.random() < 0.7:
            i = random.randrange(len(chunks))
            j = i + 1 + int(random.expovariate(0.5))
            part = b"".join(chunks[i:j])
            before = b"".join(chunks[:i])
        else:
            i = _place(content, random)
            part, before = content[i : i + 1 + int(random.expovariate(0.1))], content[:i]
        return before + part * (room // max(len(part), 1)) + content[len(before) :]


def _place(content: bytes, random: Random) -> int:
    return random.randrange(len(content) + 1)


def _span(content: bytes, random: Random) -> tuple[int, int]:
    start = _place(content, random)
    longest = len(content) if random.random() < 0.1 else 32
    return start, min(start + 1 + int(random.random() * longest), len(content))


def _token_at(content: bytes, random: Random) -> tuple[int, int]:
    match = _TOKEN.search(content, _place(content, random)) or _TOKEN.search(content)
    return match.span() if match else (0, 0)


def _flip(content: bytes, random: Random) -> bytes:
    changed = bytearray(content)
    for _ in range(random.choice((1, 1, 2, 8)) if content else 0):
        changed[random.randrange(len(changed))] ^= 1 << random.randrange(8)
    return bytes(changed)


def _overwrite(content: bytes, random: Random) -> bytes:
    start = _place(content, random)
    fresh = random.choice(
        (random.randbytes(random.choice((1, 4, 16))), b"\x00" * 8, b"\xff" * 8, b"\x80", b"\n")
    )
    return content[:start] + fresh + content[start + len(fresh) :]


def _integer(content: bytes, random: Random) -> bytes:
    """Write the edge of some integer type, or a length, over bytes."""
    width = random.choice((1, 2, 3, 4, 8))
    value = random.choice((*_EDGES, len(content), -1, -2)) % 2 ** (8 * width)
    start = _place(content, random)
    written = value.to_bytes(width, random.choice(("little", "big")))
    return content[:start] + written + content[start + width :]


def _insert(content: bytes, random: Random) -> bytes:
    start = _place(content, random)
    return content[:start] + random.randbytes(random.choice((1, 2, 8))) + content[start:]


def _delete(content: bytes, random: Random) -> bytes:
    start, end = _span(content, random)
    return content[:start] + content[end:]


def _duplicate(content: bytes, random: Random) -> bytes:
    start, end = _span(content, random)
    to = _place(content, random) if random.random() < 0.5 else end
    return content[:to] + content[start:end] * random.choice((1, 1, 2, 20)) + content[to:]


def _truncate(content: bytes, random: Random) -> bytes:
    return content[: _place(content, random)]


_OF_BYTES: Sequence[Operation] = (
    _flip,
    _overwrite,
    _integer,
    _integer,
    _insert,
    _delete,
    _duplicate,
    _truncate,
)


def _quoted(content: bytes, random: Random) -> bytes:
    """Make text of a number, and the other way round."""
    start, end = _token_at(content, random)
    token = content[start:end]
    other = token.strip(b'"') if token.startswith(b'"') else b'"' + token + b'"'
    return content[:start] + other + content[end:]


def _nudged(content: bytes, random: Random) -> bytes:
    """Change a number a little, or by orders of magnitude."""
    start, end = _token_at(content, random)
    token = content[start:end]
    more = random.choice((b"0", b"9", b"000000", b"e9", b"e300", b".5", b"-"))
    return content[:start] + (more + token if more == b"-" else token + more) + content[end:]


def _matching(content: bytes, start: int) -> int:
    """Return where the bracket that opens at `start` has closed."""
    depth = 0
    for bracket in _BRACKET.finditer(content, start):
        depth += 1 if bracket[0] in b"[{" else -1
        if depth == 0:
            return bracket.end()
    return len(content)


def _value_at(content: bytes, random: Random) -> tuple[int, int]:
    """Return where a value in brackets stands, or a token."""
    start = content.find(random.choice((b"[", b"{")), _place(content, random))
    return (start, _matching(content, start)) if start >= 0 else _token_at(content, random)


def _member(content: bytes, random: Random) -> tuple[int, int, int]:
    """Return where a JSON member, and its value, begin, and where they end."""
    key = _KEY.search(content, _place(content, random)) or _KEY.search(content)
    if key is None:
        return 0, 0, 0
    at = key.end()
    if content[at : at + 1] in (b"[", b"{"):
        return key.start(), at, _matching(content, at)
    token = _TOKEN.match(content, at)
    return key.start(), at, token.end() if token else at


def _brackets(content: bytes, random: Random) -> bytes:
    """Replace a list or object by a scalar, empty, delete, repeat, wrap or move it."""
    start, end = _value_at(content, random)
    value = content[start:end]
    to_start, to_end = _token_at(content, random)
    match random.randrange(6):
        case 0:
            new = random.choice(_VALUES)
        case 1:
            new = b""
        case 2:
            new = value + b"," + value
        case 3:
            new = b"[" + value + b"]"
        case 4:
            new = b'{"a":' + value + b"}"
        case _:
            return content[:to_start] + value + content[to_end:]
    return content[:start] + new + content[end:]


def _repeated_key(content: bytes, random: Random) -> bytes:
    start, at, end = _member(content, random)
    if random.random() < 0.3:  # without it, and perhaps without its comma
        return content[:start] + content[end + random.randrange(2) :]
    value = random.choice(_VALUES) if random.random() < 0.7 else content[at:end]
    return content[:start] + content[start:at] + value + b"," + content[start:]


def _other_value(content: bytes, random: Random) -> bytes:
    """Give a JSON member a value of another kind, or that of another member."""
    _, at, end = _member(content, random)
    _, other, other_end = _member(content, random)
    value = random.choice(_VALUES) if random.random() < 0.6 else content[other:other_end]
    return content[:at] + value + content[end:]


_OF_TEXT: Sequence[Operation] = (
    _quoted,
    _nudged,
    _brackets,
    _repeated_key,
    _other_value,
    _other_value,
)
