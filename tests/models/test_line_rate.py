import pytest

from models.line_rate import LineRate, fit
from tests.models.async_sgd.frames import chain
from tests.models.mixed import mixed
from tests.models.runs import links, run_tables, scenario
from warehouse.records import BadInput


def fitted(downlink_Bps: float, uplink_Bps: float) -> LineRate:
    """Fit to steps of 20 kB down and 10 kB up."""
    runs, scenarios = run_tables()
    speeds = links([downlink_Bps], [uplink_Bps])
    return fit(runs=runs, scenarios=scenarios, operations=chain().operations, links=speeds)


@pytest.mark.parametrize(("speeds", "bound"), [((100e3, 100e3), 5.0), ((400e3, 100e3), 10.0)])
def test_the_busier_direction_counts_whatever_w(speeds: tuple[float, float], bound: float) -> None:
    predicted = fitted(*speeds).predict([scenario(workers) for workers in (1, 2, 9)])
    assert predicted["value"].to_list() == pytest.approx([bound] * 3)
    assert predicted["high"].to_list() == [None] * 3


def test_mixed_workers_meet_the_same_bound() -> None:
    model = fitted(100e3, 100e3)
    (value,) = model.predict([mixed({"emu.1c": 2, "emu.slow": 1})])["value"]
    assert value == pytest.approx(5.0)
    with pytest.raises(BadInput, match="batch_size 9, but the profile has 8"):
        model.predict([mixed({"emu.1c": 2, "emu.slow": 1}, batch_size=9)])


def test_other_servers_and_links_are_refused() -> None:
    with pytest.raises(BadInput, match=r"the profile has 1 server\(s\), not 2"):
        fitted(1e3, 1e3).predict([scenario(2, servers=2)])
    with pytest.raises(BadInput, match=r"has a link of 0\.8 Mb/s, not 2\.0"):
        fitted(1e3, 1e3).predict([scenario(2, link_mbps=2.0)])
