"""New warehouses of tests, which are copies of one."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.once import once
from warehouse import publication, warehouse


@pytest.fixture(autouse=True, scope="session")
def empty_warehouses(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Make new warehouses of this process by copying one: all migrations take 1.5 s each time.

    Programs that tests start make theirs themselves, and so does `publication.ensure_warehouse`.
    """
    made = once(
        tmp_path_factory, "empty", lambda folder: publication.ensure_warehouse(folder / "made")
    )

    def copied(main: Path) -> None:
        if main.exists():
            return
        fresh = main.with_name(f".tmp-{os.getpid()}-copied")
        try:
            main.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(made / "made", fresh)
            fresh.replace(main)
        except OSError:  # a full disk, no right to write: what then happens is tested
            fresh.unlink(missing_ok=True)
            publication.ensure_warehouse(main)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(warehouse, "ensure_warehouse", copied)
        yield
