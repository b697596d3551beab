"""Small public files that importers once took for something else; hosts in them are replaced.

Of `public/`: nccl-ranks-cut, nccl-no-type-columns and nccl-one-rank-listed-busbw-3x are from public
threads and guides, nccl-reduce-scatter-no-header-name from nccl-tests' issue 128,
iperf3-receiver-seconds is a public result of iperf 3.9 with `-n`, kineto-unknown-device-category an
excerpt of facebookresearch/HolisticTraceAnalysis.
"""

from pathlib import Path

import pytest

from profilers.readers.contract import ReaderOptions
from tests.profilers.readers.imports import imported, only
from warehouse.records import BadInput

PUBLIC = Path(__file__).parent / "public"


def test_a_list_of_ranks_cut_at_100_of_1024() -> None:
    """Bus / algorithm bandwidth is 1.998 throughout; 100 ranks have 1.98."""
    file = PUBLIC / "nccl-ranks-cut.log"
    with pytest.raises(BadInput, match=r"100 ranks has 1\.980000; .* --world-size$"):
        imported("nccl-tests", file)
    rows = only("nccl-tests", file, ReaderOptions(world_size=1024)).tables["allreduce"]
    assert rows.height == 10
    first = rows.filter(in_place=False).sort("size_bytes").row(0, named=True)
    assert first["seconds"] == pytest.approx(0.019355)
    assert first["bus_bandwidth_Bps"] == pytest.approx(110.84e9, rel=1e-4)


def test_ranks_without_a_bus_id_and_rows_without_a_type() -> None:
    run = only("nccl-tests", PUBLIC / "nccl-no-type-columns.log")
    assert run.tables["allreduce"].select("world_size", "seconds", "in_place").rows() == [
        (4, pytest.approx(0.1078), None)
    ]
    assert run.host == {"gpu": "Tesla V100-PCIE-16GB"}
    assert run.config["data_type"] == "unknown"


@pytest.mark.parametrize("options", [ReaderOptions(), ReaderOptions(world_size=8)])
def test_a_ratio_that_no_number_of_ranks_gives(options: ReaderOptions) -> None:
    with pytest.raises(
        BadInput, match=r"line 10: .* is 3\.2349\d\d, .* no number of ranks gives that"
    ):
        imported("nccl-tests", PUBLIC / "nccl-one-rank-listed-busbw-3x.log", options)


@pytest.mark.parametrize(
    "options", [ReaderOptions(), ReaderOptions(world_size=8), ReaderOptions(world_size=2)]
)
def test_a_reduce_scatter_is_refused_without_a_hint(options: ReaderOptions) -> None:
    with pytest.raises(BadInput, match="line 6: 128 B are not 4 elements of type float") as error:
        imported("nccl-tests", PUBLIC / "nccl-reduce-scatter-no-header-name.log", options)
    assert "--world-size" not in str(error.value)


def test_bytes_and_seconds_of_a_receiver_give_its_bandwidth() -> None:
    row = only("iperf3", PUBLIC / "iperf3-receiver-seconds.json").tables["link"].row(0, named=True)
    assert (row["bytes"], row["seconds"]) == (202_362_368, 19.440951)
    assert row["bandwidth_Bps"] == pytest.approx(10_409_077.6)


def test_events_of_a_device_that_is_no_gpu_are_counted() -> None:
    run = only("kineto", PUBLIC / "kineto-unknown-device-category.json")
    assert run.tables["operation"].height == 6
    assert run.left_out == {
        "events of category 'mtia_ccp_events'": 4,
        "events of category 'mtia_runtime'": 2,
    }
    assert run.notes == ("no ProfilerStep in it: taken as one step",)
