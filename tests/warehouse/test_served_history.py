"""The history of a service: read once, and nothing but fits is kept."""

from collections import OrderedDict
from collections.abc import Hashable
from typing import Any

import pytest

from tests.warehouse.conftest import Maker
from warehouse import history as published
from warehouse.history import PublishedHistory, ServedHistory


def test_what_was_read_is_read_once(profiled: Maker, monkeypatch: pytest.MonkeyPatch) -> None:
    at_hand: OrderedDict[Hashable, Any] = OrderedDict()
    opened: list[PublishedHistory] = []
    open_history = PublishedHistory._open  # noqa: SLF001

    def counted(history: PublishedHistory, *, files: bool = False) -> Any:
        opened.append(history)
        return open_history(history, files=files)

    monkeypatch.setattr(PublishedHistory, "_open", counted)
    for _ in range(2):  # of two questions
        history = ServedHistory(profiled.home, at_hand)
        with history.reading():
            tables = history.visible_tables(["run"], ["p1"])
            assert history.query("fits").is_empty() and history.has_runs_on("emulated")
        assert tables["run"].equals(PublishedHistory(profiled.home).visible("run", ["p1"]))
    assert {id(each) for each in opened if isinstance(each, ServedHistory)} != {id(history)}
    assert len(at_hand) == 3


def test_fits_alone_are_kept_and_where_nobody_else_writes(
    profiled: Maker, monkeypatch: pytest.MonkeyPatch
) -> None:
    fit, history = profiled.fit("p1"), ServedHistory(profiled.home, OrderedDict())
    answer = profiled.prediction(fit, profiled.scenario(2), 2.0)
    with monkeypatch.context() as patch:
        patch.setattr(published, "writer_of", lambda _: "process 17")
        history.record(fits=[fit])
    assert profiled.rows("FROM fit.fit").is_empty()
    assert history.record([answer], fits=[fit]) == 0
    assert profiled.rows("SELECT fit_id FROM fit.fit")["fit_id"].to_list() == [fit.fit_id]
    assert profiled.rows("FROM pred.ledger").is_empty()
