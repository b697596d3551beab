"""What names the code of a system: what it uses, and nothing else."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from forecasting import code
from forecasting.code import code_digest
from models.ceer.systems import CEER
from models.linear_scaling import LINEAR
from models.predictddl.systems import LOG_LINEAR, PREDICTDDL
from models.srift.system import SRIFT
from warehouse.home import CHECKOUT

SYSTEMS = {system.name: system for system in (CEER, LINEAR, PREDICTDDL, SRIFT)}


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Return a copy of the code, of which digests are."""
    for room in ("models", "networks", "warehouse", "forecasting"):
        shutil.copytree(CHECKOUT / room, tmp_path / room, ignore=lambda *_: ["__pycache__"])
    monkeypatch.setattr(code, "_ROOT", tmp_path)
    _forget()
    yield tmp_path
    _forget()


def _forget() -> None:
    for function in (code.digest, code._imports, code._file):  # noqa: SLF001
        function.cache_clear()


@pytest.mark.parametrize(
    ("file", "changed"),
    [
        ("models/srift/latency.py", {"srift"}),
        ("models/predictddl/embedders/digits.safetensors", {"predictddl"}),
        ("models/system.py", {"srift", "predictddl", "ceer", "linear"}),
        ("networks/pytorch_graph.py", {"predictddl", "ceer"}),
        ("forecasting/fits.py", {"srift", "predictddl", "ceer", "linear"}),
        ("forecasting/study_checks.py", set()),
    ],
)
def test_only_what_a_system_uses_changes_its_digest(
    checkout: Path, file: str, changed: set[str]
) -> None:
    before = {name: code_digest(system) for name, system in SYSTEMS.items()}
    with (checkout / file).open("ab") as out:
        out.write(b"\n")
    _forget()
    after = {name: code_digest(system) for name, system in SYSTEMS.items()}
    assert {name for name in SYSTEMS if before[name] != after[name]} >= changed
    if file.startswith(("forecasting/study_checks", "warehouse/loader")):
        assert before == after
    if file == "models/srift/latency.py":
        assert before["linear"] == after["linear"]
        assert before["ceer"] == after["ceer"]


def test_systems_of_one_module_share_it() -> None:
    assert code_digest(PREDICTDDL) == code_digest(LOG_LINEAR) != code_digest(SRIFT)
    assert code_digest(PREDICTDDL).startswith("code:")


def test_code_is_that_of_all_modules_that_are_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, text in {
        "here/__init__.py": "",
        "here/top.py": "from here import middle\n",
        "here/middle.py": "def f() -> None:\n    from here.deep import value\n",
        "here/deep.py": "value = 1\n",
        "here/aside.py": "value = 1\n",
    }.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    monkeypatch.setattr(code, "_ROOT", tmp_path)

    def named() -> str:
        _forget()
        return code.digest(("here.top",), ("here",))

    before = named()
    (tmp_path / "here/aside.py").write_text("value = 2\n")
    assert named() == before
    (tmp_path / "here/deep.py").write_text("value = 2\n")
    assert named() != before
    _forget()
