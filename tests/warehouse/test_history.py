"""What is comparable."""

import polars as pl
import pytest

from tests.made_run import raw_table
from tests.warehouse.conftest import Maker

METRIC = "throughput_steps_per_s"


@pytest.mark.parametrize(
    ("setting", "is_comparable"),
    [
        ({"stationary": False, "windows": 3, "discarded_windows": 1}, True),
        ({"stolen_cpu_fraction": 0.01, "gauge_us": 210.5}, True),
        ({"host_gflops": 55.1, "uncertainty": 0.05}, True),
        ({"traced": False}, False),
    ],
)
def test_what_the_probe_was_asked_makes_values_comparable(
    make: Maker, setting: dict[str, bool | float | str], is_comparable: bool
) -> None:
    scenario = make.scenario(2)
    make.measure("earlier", scenario, [2.0], minute=0)
    sample = pl.DataFrame({"metric": [METRIC], "unit": ["1/s"], "window": [1], "value": [2.2]})
    run = make.run("later", scenario, "measurement", minute=9)
    run = run.model_copy(update={"config": {**run.config, **setting}})
    make.land(run, scenario, {"sample": sample})
    make.warehouse.load()
    rows = make.rows(f"SELECT comparable_id FROM report.history WHERE metric = '{METRIC}'")
    assert rows["comparable_id"].n_unique() == (1 if is_comparable else 2)


def test_failed_runs_have_no_place_in_history(make: Maker) -> None:
    scenario = make.scenario(2)
    sample = pl.DataFrame({"metric": [METRIC], "unit": ["1/s"], "window": [1], "value": [2.2]})
    failed = make.run("bad", scenario, "measurement").model_copy(update={"status": "failed"})
    make.land(failed, scenario, {"sample": sample})
    make.warehouse.load()
    assert make.rows("FROM report.history").is_empty()


def test_every_point_of_a_grid_has_its_own_history(make: Maker) -> None:
    link = raw_table(
        "link",
        "direction flows flow trial seconds bytes bandwidth_Bps",
        [
            ("uplink", 1, 0, 0, 1.0, 9, 9.0),
            *(("uplink", 2, i, 0, 1.0, 5, 5.0 - 2 * i) for i in (0, 1)),
        ],
    )
    compute = raw_table(
        "compute",
        "batch_size trial rank forward_s backward_s",
        [(4, 0, 0, 1.0, 2.0), (4, 1, 0, 2.0, 4.0), (8, 0, 0, 4.0, 8.0)],
    )
    make.land(make.run("r1", None, "profile"), None, {"link": link})
    make.land(make.run("r2", None, "profile"), None, {"compute": compute})
    make.warehouse.load()
    rows = make.rows("SELECT metric, point, value FROM report.latest ORDER BY ALL")
    assert rows.rows() == [
        ("backward_s", "batch 4", 3.0),
        ("backward_s", "batch 8", 8.0),
        ("forward_s", "batch 4", 1.5),
        ("forward_s", "batch 8", 4.0),
        ("uplink_bandwidth_Bps", "1 flows", 9.0),
        ("uplink_bandwidth_Bps", "2 flows", 8.0),
    ]
