"""The stand-in has homes of its own, and what it forgets is not said to live."""

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from profilers.renting.book import Book, LaunchIntent, LaunchResult
from profilers.renting.cap import bill
from tests.profilers.renting import alone
from tests.profilers.renting.intents import intent
from warehouse.home import home as home_folder
from warehouse.records import BadInput
from warehouse.warehouse import Warehouse

AT = datetime.now(UTC) - timedelta(hours=1)


def launch(token: str) -> LaunchIntent:
    return intent(token, hours=6.0, at=AT)


def test_a_home_of_somebody_is_refused(home: Path) -> None:
    Book().write(launch("t0"))
    with pytest.raises(BadInput, match="is no home of the stand-in's"), alone.own_home():
        pass
    assert not (home / alone.FOLDER).exists()


def test_two_are_not_at_work_in_one_home(home: Path) -> None:
    with (
        alone.own_home(),
        pytest.raises(BadInput, match="another stand-in is at work"),
        alone.own_home(),
    ):
        pass
    with alone.own_home():
        pass


def test_instances_have_ended_with_the_stand_in_that_was_killed(home: Path) -> None:
    """They lived from their launch until it last looked after them: half an hour at $1."""
    with alone.own_home() as folder:
        (folder / "i-0").mkdir()
        Book().write(launch("t0"), LaunchResult(token="t0", ids=("i-0",), at=AT), launch("t1"))
        last_s = (AT + timedelta(minutes=30)).timestamp()
        os.utime(folder, (last_s, last_s))
        alone.end_book(folder)
        entries = Book().read()
        assert not entries.living and not entries.unanswered
        assert bill(entries).open_usd == 0
        assert bill(entries).spent_usd == pytest.approx(0.5, abs=1e-3)
        (row,) = Warehouse(home).query("bill").to_dicts()
        assert row["spent_usd"] == pytest.approx(bill(entries).spent_usd)
    assert [path.name for path in folder.iterdir()] == ["lock"]


def test_without_a_name_it_has_one_in_the_checkout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("STEPCAST_HOME", raising=False)
    assert alone.HOME.name == "ec2-stand-in"
    assert alone.HOME.parent == home_folder()
