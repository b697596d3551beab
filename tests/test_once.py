"""What takes long to make is made once, whatever number of processes asks for it."""

from pathlib import Path

import pytest

from tests.once import once


def test_a_folder_is_made_once(tmp_path_factory: pytest.TempPathFactory) -> None:
    folders: list[Path] = []

    def make(folder: Path) -> None:
        folders.append(folder)
        (folder / "file").write_text("content")

    first, second = (once(tmp_path_factory, "made-once", make) for _ in range(2))
    assert folders == [first] == [second]
    assert (first / "file").read_text() == "content"


def test_processes_beside_each_other_share_it(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTEST_XDIST_WORKER", "gw7")
    folders: list[Path] = []
    for worker in ("gw7", "gw8"):
        monkeypatch.setattr(tmp_path_factory, "_basetemp", tmp_path / worker)
        assert once(tmp_path_factory, "shared", folders.append) == tmp_path / "shared"
    assert folders == [tmp_path / "shared"]


def test_what_failed_is_made_by_the_next(tmp_path_factory: pytest.TempPathFactory) -> None:
    def fail(folder: Path) -> None:
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space"):
        once(tmp_path_factory, "failed-once", fail)
    made = once(tmp_path_factory, "failed-once", lambda folder: (folder / "file").touch())
    assert (made / "file").exists()
