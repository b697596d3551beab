"""Tests of `networks.own_reads`."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from networks import own_reads
from networks.kept_graphs import keep_in
from networks.own_model import own_model
from networks.own_reads import are_unchanged

_PROGRAM = f"""
import importlib.util, json, sys
spec = importlib.util.spec_from_file_location("own_reads", {own_reads.__file__!r})
own_reads = importlib.util.module_from_spec(spec)
spec.loader.exec_module(own_reads)
reads = own_reads.Reads()
sys.path.insert(0, ".")
exec(sys.argv[1])
print(json.dumps(reads.stamps))
"""


def _stamps_of(code: str, folder: Path) -> Any:
    """Return what code reads that runs in a folder."""
    command = [sys.executable, "-c", _PROGRAM, code]
    compiling = {**os.environ, "PYTHONDONTWRITEBYTECODE": ""}
    ended = subprocess.run(command, cwd=folder, env=compiling, capture_output=True, check=True)
    return json.loads(ended.stdout)


def _touch(path: Path) -> None:
    os.utime(path, (1, 1))


def _rewrite(path: Path) -> None:
    path.write_text(path.read_text().replace("1", "2"))
    _touch(path)  # the time of a file tells nothing


def _have(name: str) -> Callable[[Path], object]:
    return lambda _: os.environ.__setitem__(name, "700")


@pytest.mark.parametrize(
    ("code", "change", "unchanged"),
    [
        ("open('sizes.txt').read()", lambda home: None, True),
        ("open('sizes.txt').read()", lambda home: _touch(home / "sizes.txt"), True),
        ("open('sizes.txt').read()", lambda home: _rewrite(home / "sizes.txt"), False),
        ("open('sizes.txt').read()", lambda home: (home / "sizes.txt").unlink(), False),
        ("open('out.txt', 'w').close()", lambda home: (home / "out.txt").unlink(), True),
        ("import tempfile; tempfile.TemporaryFile()", lambda home: None, True),
        ("import sizes", lambda home: _rewrite(home / "sizes.py"), False),
        ("import sizes", lambda home: _touch(home / "sizes.py"), True),
        ("import sizes", lambda home: shutil.rmtree(home / "__pycache__"), True),
        ("import sizes as compiled_anew", lambda home: None, True),
        ("import os; os.listdir()", lambda home: (home / "more").touch(), False),
        ("import os; os.listdir()", lambda home: (home / "__pycache__").mkdir(), True),
        ("try: open('more')\nexcept OSError: pass", lambda home: (home / "more").touch(), False),
        ("import os; os.environ.get('LAYERS')", _have("LAYERS"), False),
        ("import os; 'LAYERS' in os.environ", _have("LAYERS"), False),
        ("import os; os.environ['LAYERS'] = '7'; os.getenv('LAYERS')", _have("HEADS"), True),
        ("import os; os.getenv('LAYERS')", _have("HEADS"), True),
        ("import os; os.getenv('SHLVL')", _have("SHLVL"), True),
        # What stands beside our packages is not of the user's code.
        ("import os; os.listdir(own_reads._CHECKOUT)", lambda home: None, True),
    ],
)
def test_what_code_read_is_told_from_what_it_would_read_now(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    code: str,
    change: Callable[[Path], object],
    unchanged: bool,
) -> None:
    for name in ("LAYERS", "HEADS", "SHLVL"):
        monkeypatch.delenv(name, raising=False)
    for name in ("sizes.txt", "sizes.py"):
        (tmp_path / name).write_text("layers = 1\n")
    if code == "import sizes":
        _stamps_of(code, tmp_path)  # its source is not opened again
    stamps = _stamps_of(code, tmp_path)
    assert are_unchanged(stamps) and ("_CHECKOUT" not in code or stamps == {})
    change(tmp_path)
    assert are_unchanged(stamps) == unchanged


@pytest.mark.parametrize(
    "code",
    [
        "import subprocess; subprocess.run(['true'])",
        "import os; os.system('true')",
        "import socket; socket.getaddrinfo('localhost', 80)",
        "own_reads._MOST_READS = 3\nfor n in range(5):\n try: open(str(n))\n except OSError: pass",
    ],
)
def test_what_was_asked_of_others_or_of_too_many_files_is_not_kept(
    tmp_path: Path, code: str
) -> None:
    assert _stamps_of(code, tmp_path) is None


def test_a_model_is_traced_again_when_a_file_that_its_code_read_has_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = tmp_path / "code"
    code.mkdir()
    (code / "built.py").write_text(
        "import json, pathlib, torch\n"
        "def build():\n"
        "    width = json.loads(pathlib.Path('width.json').read_text())\n"
        "    return torch.nn.Linear(4, width), torch.zeros(2, 4)\n"
    )
    (code / "width.json").write_text("3")
    keep_in(tmp_path / "graphs")
    first = own_model("built:build", [2], code)
    with monkeypatch.context() as patch:
        patch.setattr(subprocess, "Popen", None)  # none is needed
        assert own_model("built:build", [2], code) == first
    (code / "width.json").write_text("5")
    assert own_model("built:build", [2], code).parameter_count == 25
    assert first.parameter_count == 15
