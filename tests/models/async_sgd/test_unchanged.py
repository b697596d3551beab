"""Predictions of like workers, typed in from before workers could differ: they stay what they were.

Accuracy that is kept was judged with them.
"""

import pytest

from tests.models.async_sgd.test_predictor import QUICK, fitted, probed, two_servers, varied
from tests.models.runs import scenario
from warehouse.records import Scenario

BRIEF = {"model_error": 0.08, "simulated_operations": 6000}


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        (scenario(1), (1.0182578941592808, 0.8711924567369403, 1.1653233315816212)),
        (scenario(3), (2.8391895913906375, 2.453742056988532, 3.224637125792743)),
        (scenario(5), (4.194969820137419, 3.5951994560960694, 4.794740184178768)),
    ],
)
def test_links_that_share_by_chance(asked: Scenario, expected: tuple[float, ...]) -> None:
    model = fitted(varied(), QUICK.model_copy(update=BRIEF), shared_Bps=(1.0, 1.3))
    assert model.predict([asked]).row(0)[1:] == pytest.approx(expected, rel=1e-12)


def test_windows_and_orders() -> None:
    model = fitted(varied(), QUICK.model_copy(update={**BRIEF, "window_bytes": 7000}))
    expected = (2.8117146081901594, 2.4197447000091628, 3.203684516371156)
    assert model.predict([scenario(3, order="tic")]).row(0)[1:] == pytest.approx(
        expected, rel=1e-12
    )


def test_probed_contention() -> None:
    contention = probed(30_000, spread=0.2)
    settings = QUICK.model_copy(update={**BRIEF, "measured_shares": True})
    model = fitted(varied(), settings, contention=contention)
    expected = (3.7403400018483417, 3.225725428177741, 4.254954575518942)
    assert model.predict([scenario(4)]).row(0)[1:] == pytest.approx(expected, rel=1e-12)


def test_several_servers() -> None:
    model = fitted(two_servers(), QUICK.model_copy(update=BRIEF), profiled=scenario(servers=2))
    expected = (4.877268575573422, 4.235477143081551, 5.519060008065292)
    assert model.predict([scenario(4, servers=2)]).row(0)[1:] == pytest.approx(expected, rel=1e-12)


def test_shared_cores_of_the_server() -> None:
    model = fitted(varied(), QUICK.model_copy(update={**BRIEF, "share_server_cores": True}))
    expected = (4.623053736294967, 3.985023625312566, 5.2610838472773676)
    assert model.predict([scenario(6)]).row(0)[1:] == pytest.approx(expected, rel=1e-12)
