import subprocess
from collections.abc import Iterator
from typing import NoReturn

import pytest

from warehouse import home
from warehouse.home import code_version


@pytest.fixture(autouse=True)
def uncached() -> Iterator[None]:
    """Forget what was asked before, and what a test was answered."""
    code_version.cache_clear()
    yield
    code_version.cache_clear()


def test_a_checkout_is_what_git_calls_it() -> None:
    named = code_version().removesuffix("-dirty")
    head, described = (
        subprocess.run(
            ["git", "rev-parse", f"{revision}^{{commit}}"],
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        for revision in ("HEAD", named)
    )
    assert described == head


def test_without_git_it_is_the_version_of_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_args: object, **_options: object) -> NoReturn:
        raise FileNotFoundError("git")

    monkeypatch.setattr(subprocess, "run", refuse)
    monkeypatch.setattr(home, "version", lambda: "9.9")
    assert code_version() == "9.9"
