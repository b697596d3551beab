"""A target with every fault that the fuzzer has to find; the first byte says which."""

import os
import time
from pathlib import Path
from random import Random

from tests.fuzz.mutation import Mutator
from tests.fuzz.targets import Target
from warehouse.records import BadInput

FAULTS = b"abcdefgh"


class _Each(Mutator):
    """Each fault in turn, among bytes that do not matter."""

    def __call__(self, random: Random) -> bytes:
        return bytes([random.choice(FAULTS)]) + random.randbytes(20)


def _take(path: Path) -> None:
    match path.read_bytes()[:1]:
        case b"a":
            raise BadInput("refused")
        case b"b":
            raise KeyError("b")
        case b"c":
            bytearray(1 << 30)
        case b"d":
            while True:
                time.process_time()
        case b"e":
            os.abort()
        case b"f":
            _deeper()


def _deeper() -> None:
    _deeper()


FAULTY = Target("x.bin", _Each([b"h"]), _take, cpu_s=0.2, memory_mb=256)
