from dataclasses import replace

import pytest

from models.async_sgd.link_sharing import MeasuredSharing
from warehouse.records import BadInput

MEASURED = MeasuredSharing(
    flows=(1, 2, 4), efficiency=(1.0, 0.9, 0.7), shares=((1.0,), (0.7, 0.3), (0.4, 0.3, 0.2, 0.1))
)


def test_what_was_measured() -> None:
    assert MEASURED.of(2) == (0.9, (0.7, 0.3))
    assert MEASURED.of(4) == (0.7, (0.4, 0.3, 0.2, 0.1))


def test_between_and_beyond() -> None:
    """Three have the shape of two: 0.7, 0.5 and 0.3, which add up to 1.5."""
    efficiency, shares = MEASURED.of(3)
    assert efficiency == pytest.approx(0.8)
    assert shares == pytest.approx((7 / 15, 5 / 15, 3 / 15))
    efficiency, shares = MEASURED.of(8)
    assert efficiency == 0.7
    assert sum(shares) == pytest.approx(1)
    assert list(shares) == sorted(shares, reverse=True)


def test_what_goes_the_other_way() -> None:
    opposed = replace(MEASURED, opposed=(1.0, 0.9, 0.5))
    assert [opposed.against(m) for m in (0, 1, 2, 7)] == [1.0, 0.9, 0.5, 0.5]
    assert MEASURED.against(3) == 1.0


@pytest.mark.parametrize("opposed", [(), (1.1,), (1.0, 0.5, 0.6), (1.0, 0.0)])
def test_fractions_that_cannot_be(opposed: tuple[float, ...]) -> None:
    with pytest.raises(BadInput, match="expected descending fractions of 0 to 1"):
        replace(MEASURED, opposed=opposed)


@pytest.mark.parametrize(
    ("flows", "efficiency", "shares", "message"),
    [
        ((1, 2), (1.0,), ((1.0,),), "expected as many"),
        ((2, 1), (1.0, 1.0), ((0.5, 0.5), (1.0,)), "expected ascending"),
        ((1,), (0.0,), ((1.0,),), "efficiency must be above 0"),
        ((2,), (1.0,), ((0.3, 0.7),), "expected 2 descending shares"),
        ((2,), (1.0,), ((0.7, 0.4),), "add up to 1"),
        ((2,), (1.0,), ((1.0,),), "expected 2 descending shares"),
    ],
)
def test_what_cannot_be(
    flows: tuple[int, ...],
    efficiency: tuple[float, ...],
    shares: tuple[tuple[float, ...], ...],
    message: str,
) -> None:
    with pytest.raises(BadInput, match=message):
        MeasuredSharing(flows, efficiency, shares)
