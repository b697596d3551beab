"""Compiled functions: what numba kept of them may be damaged."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

SOURCE = """
from models.compiled import compiled

@compiled
def doubled(number):
    return 2 * number
"""


def imported(file: Path) -> ModuleType:
    """Return a module of a file, as another process imports it."""
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def hits(module: ModuleType) -> int:
    """Return how often kept code was used."""
    return sum(module.doubled.stats.cache_hits.values())


@pytest.mark.parametrize("suffix", [".nbi", ".nbc"])
@pytest.mark.parametrize("part", [0.0, 0.3, 0.9])
def test_kept_code_that_was_cut_is_compiled_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str, part: float
) -> None:
    monkeypatch.setattr("numba.config.CACHE_DIR", str(tmp_path / "kept"))
    file = tmp_path / "doubling.py"
    file.write_text(SOURCE)
    assert imported(file).doubled(3) == 6
    (kept,) = (tmp_path / "kept").rglob(f"*{suffix}")
    whole = kept.read_bytes()
    kept.write_bytes(whole[: int(part * len(whole))])
    again = imported(file)
    assert again.doubled(4) == 8
    assert hits(again) == 0
    again = imported(file)
    assert again.doubled(5) == 10
    assert hits(again) == 1
