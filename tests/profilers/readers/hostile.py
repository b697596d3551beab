"""What readers make of bytes that nobody should have sent, without the guard of `Format.read`."""

import json
import re
from pathlib import Path

import pytest

from profilers.readers.contract import ImportedRun, ReaderOptions
from profilers.readers.formats import FORMATS
from warehouse.records import BadInput


def read(format_name: str, file: Path) -> list[ImportedRun]:
    """Read a file; a reader that trips over it shows what it tripped over."""
    return list(FORMATS[format_name].reader(file, ReaderOptions()))


def refused(format_name: str, file: Path, content: object, says: str) -> None:
    """Check that the reader itself refuses a file, and names it; `content` is bytes or JSON."""
    file.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
    with pytest.raises(BadInput, match=re.escape(says)) as refusal:
        read(format_name, file)
    assert str(refusal.value).startswith(str(file))
    assert "\n" not in str(refusal.value)
