from typing import TYPE_CHECKING

import pytest
from pydantic import ValidationError

from warehouse.ledger import RegisteredSystem
from warehouse.records import BadInput

if TYPE_CHECKING:
    from tests.warehouse.conftest import Maker

RESERVED = (
    "async_sgd, async_sgd_one_server, lin, cynthia, cynthia_half, linear, line_rate, srift, "
    "srift_compute, srift_allreduce, allreduce_alpha_beta, allreduce_rated, ideal_scaling, ceer, "
    "ceer_paper, ceer_pytorch, ceer_pytorch_paper, ceer_operations, predictddl, "
    "ernest, ernest_probed, log_linear, black_box, gray_box, combined"
).split(", ")
OURS = RegisteredSystem(name="ours", what="The mean of everything", source="this test")


def test_reserved_systems_are_registered_with_what_they_are(make: "Maker") -> None:
    make.warehouse.load()
    rows = make.rows("SELECT name, what, source FROM pred.system").rows()
    assert sorted(name for name, _, _ in rows) == sorted(RESERVED)
    assert all(len(what) > 10 and len(source) > 3 for _, what, source in rows)
    assert not any("\n" in text for row in rows for text in row)


def test_systems_nobody_registered_are_refused(make: "Maker") -> None:
    make.profile("p1", make.scenario(1))
    make.warehouse.load()
    fit = make.fit("p1", system="ours")
    with pytest.raises(BadInput, match=r"system 'ours' is not registered; register it, or .*ceer"):
        make.warehouse.record_fit(fit)
    make.warehouse.record_fit(make.fit("p1"))
    known = make.prediction(make.fit("p1"), make.scenario(2), 2.0)
    with pytest.raises(BadInput, match="system 'ours' is not registered") as caught:
        make.warehouse.record_predictions([known, known.model_copy(update={"system": "ours"})])
    assert "\n" not in str(caught.value)
    assert make.rows("FROM pred.ledger").is_empty()


def test_others_can_register(make: "Maker") -> None:
    make.profile("p1", make.scenario(1))
    make.warehouse.load()
    make.warehouse.register(OURS)
    make.warehouse.register(OURS)
    fit = make.fit("p1", system="ours")
    make.warehouse.record_fit(fit)
    assert make.warehouse.record_predictions([make.prediction(fit, make.scenario(2), 2.0)]) == 1
    query = "SELECT what, source FROM pred.system WHERE name = 'ours'"
    assert make.rows(query).rows() == [(OURS.what, OURS.source)]


def test_the_text_of_a_name_is_the_first_registrations(make: "Maker") -> None:
    make.warehouse.load()
    make.warehouse.register(OURS)
    make.warehouse.register(OURS.model_copy(update={"what": "Better than the mean"}))
    query = "SELECT what FROM pred.system WHERE name = 'ours'"
    assert make.rows(query).rows() == [(OURS.what,)]


def test_a_name_is_a_word() -> None:
    with pytest.raises(ValidationError, match="pattern"):
        RegisteredSystem(name="Two words", what="x", source="y")
