"""nccl-tests of several ages: columns by their headers, units, ranks, what is refused."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from profilers.readers.contract import ReaderOptions
from profilers.readers.formats import FORMATS
from profilers.readers.nccl_log import NcclTime
from profilers.readers.nccl_tests import bus_bandwidth_Bps, check_bandwidths
from tests.profilers.readers.imports import imported, only
from warehouse.records import BadInput

RANKS = """\
# nThread 1 nGpus 2 minBytes 1024 maxBytes 4000000 step: 2(factor) warmup iters: 5 iters: 20
#
# Using devices
#  Rank  0 Group  0 Pid  11 on node-a device  0 [0000:07:00] NVIDIA A100-SXM4-40GB
#  Rank  1 Group  0 Pid  12 on node-a device  1 [0000:46:00] NVIDIA A100-SXM4-40GB
#
"""
NEW = f"""\
# nccl-tests version 2.17.6 nccl-headers=22809 nccl-library=22809
# Collective test starting: all_reduce_perf
{RANKS}\
#                                     out-of-place                  in-place
#    size   count  type redop root   time  algbw  busbw #wrong   time  algbw  busbw #wrong
#     (B) (elements)                 (us) (GB/s) (GB/s)          (us) (GB/s) (GB/s)
     1024     256 float   sum   -1  20.00   0.05   0.05      0  10.00   0.10   0.10    N/A
  4000000 1000000 float   sum   -1 400.00  10.00  10.00      0 500.00   8.00   8.00      3
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 4.5
"""


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "out.log"


def test_a_new_log(log: Path) -> None:
    log.write_text(NEW)
    run = only("nccl-tests", log)
    rows = run.tables["allreduce"].sort("size_bytes", "in_place")
    # The last in-place result was wrong.
    assert rows["size_bytes"].to_list() == [1024, 1024, 4_000_000]
    assert rows["in_place"].to_list() == [False, True, False]
    assert run.config["nodes"] == 1
    assert rows["seconds"].to_list() == pytest.approx([20e-6, 10e-6, 400e-6])
    assert rows["bus_bandwidth_Bps"][2] == pytest.approx(10e9)
    assert set(rows["world_size"]) == {2}
    assert run.config["wrong_results"] == 1
    assert run.software == {"nccl-tests": "2.17.6", "nccl": "2.28.9"}
    assert run.host == {"gpu": "NVIDIA A100-SXM4-40GB"}


@pytest.mark.parametrize(
    "prefix",
    [
        "[1,0]<stdout>:",  # mpirun --tag-output
        "0: ",  # srun --label
        "2026-05-01T10:00:00.123456789Z ",
        "\x1b[32m0: \x1b[0m",
        "nccl-launcher-x7k2 nccl ",  # stern
    ],
)
def test_what_stands_before_every_line(log: Path, prefix: str) -> None:
    log.write_text(NEW)
    bare = only("nccl-tests", log)
    log.write_text("".join(f"{prefix}{line}\n" for line in NEW.splitlines()))
    run = only("nccl-tests", log)
    assert run.tables["allreduce"].equals(bare.tables["allreduce"])
    assert (run.host, run.software, run.left_out) == (bare.host, bare.software, bare.left_out)


def test_what_is_left_out_is_counted(log: Path) -> None:
    zero = "  0 0 float sum -1 6.21 0.00 0.00 0 6.23 0.00 0.00 0\n"
    digits = zero.replace("0 0", "9" * 5000 + " \u00b2")
    log.write_text(f"node-a:11:11 NCCL INFO Bootstrap\n\n{NEW}{zero}{digits}")
    run = only("nccl-tests", log)
    assert run.tables["allreduce"].height == 3
    assert run.left_out == {
        "all-reduces of 0 bytes": 2,
        "lines of other programs": 2,
        "times of wrong results": 1,
    }


def test_the_same_size_again_is_the_next_trial(log: Path) -> None:
    header, _, rows = NEW.partition("     1024")
    log.write_text(f"{header}     1024{rows}     1024{rows}")
    allreduce = only("nccl-tests", log).tables["allreduce"]
    assert sorted(allreduce.filter(size_bytes=1024, in_place=True)["trial"]) == [0, 1]


def test_a_timestamp_is_two_words_of_one_column(log: Path) -> None:
    lines = [line + "   timestamp" if "time  algbw" in line else line for line in NEW.splitlines()]
    log.write_text(
        "\n".join(line + " 2026-05-01 10:00:00" if line[:1] == " " else line for line in lines)
    )
    assert only("nccl-tests", log).tables["allreduce"].height == 3


def test_data_types_are_runs_of_their_own(log: Path) -> None:
    row = NEW.splitlines()[-4]
    log.write_text(NEW + row.replace("256 float", "512  half") + "\n")
    assert [run.config["data_type"] for run in imported("nccl-tests", log)] == ["float", "half"]


def test_ranks_that_no_header_names_come_from_the_option(log: Path) -> None:
    log.write_text(NEW.replace(RANKS, ""))
    with pytest.raises(
        BadInput, match=r"out\.log line 6: no line above lists ranks .*--world-size"
    ):
        imported("nccl-tests", log)
    rows = only("nccl-tests", log, ReaderOptions(world_size=2)).tables["allreduce"]
    assert set(rows["world_size"]) == {2}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (NEW.replace("all_reduce_perf", "all_gather_perf"), "measures 'all_gather_perf'"),
        (NEW.replace("   8.00      3", ""), "line 13: 11 columns, but the header above names 13"),
        (NEW.replace(" 400.00", "   0.00"), "line 13: expected a time above 0"),
        (
            NEW.replace("10.00  10.00", "10.00  15.00"),
            "line 13: bus bandwidth is 15 GB/s, and 10 where 2 ranks all-reduce; is it another",
        ),
        (
            NEW.replace(" 400.00", " 40.00"),
            "line 13: 4000000 bytes in 4e-05 s are 100 GB/s, .* is 10;",
        ),
        (
            NEW.replace("  time", " cputime"),
            "line 12: no column `time`; run all_reduce_perf without -C",
        ),
        ("nothing here\n", "no row of an all-reduce"),
        ("1024 256 float sum -1 2 0.05\n", "line 1: 7 columns, but the header above names 0"),
        (NEW.replace("#  Rank  1", "#  Rank  7"), "line 12: the list of ranks .* up to 7 but has"),
        (NEW.replace("   N/A", "     7").replace("      0", "      1"), "all 4 results are wrong"),
    ],
)
def test_what_is_refused(log: Path, text: str, message: str) -> None:
    log.write_text(text)
    with pytest.raises(BadInput, match=message):
        imported("nccl-tests", log)


ROW = "1024     256 float   sum   -1"


@pytest.mark.parametrize(
    ("columns", "why"),
    [
        ("1024     256 float   sum    0", "it has root 0, and an all-reduce has none"),
        ("1024     256 float  none   -1", "it reduces nothing"),
        ("1024     128 float   sum   -1", "1024 B are not 128 elements of type float"),
    ],
)
def test_rows_whose_columns_say_another_collective(log: Path, columns: str, why: str) -> None:
    """Of two ranks, other collectives have the same ratio of bandwidths."""
    for text in (NEW, NEW.replace(RANKS, "")):
        log.write_text(text.replace(ROW, columns))
        with pytest.raises(BadInput, match=f"line [0-9]+: {why}.*, so this is no all-reduce"):
            imported("nccl-tests", log)


def test_ranks_that_the_bandwidths_confirm(log: Path) -> None:
    """Of a list that was cut: it names two ranks, and the bandwidths are those of 1,024."""
    header, _, _ = NEW.partition("     1024")
    cells = f"{1e6 / 183.83:.1f} 183.83 367.29 N/A"
    log.write_text(f"{header} 1000000000 250000000 float sum -1 {cells} {cells}\n")
    run = only("nccl-tests", log, ReaderOptions(world_size=1024))
    rows = run.tables["allreduce"]
    assert rows["bus_bandwidth_Bps"].to_list() == pytest.approx([367.3e9] * 2, rel=1e-4)
    # 1.980 and 1.998 differ by less than a hundredth.
    for options in (ReaderOptions(world_size=100), ReaderOptions()):
        with pytest.raises(BadInput, match="was the list of ranks cut"):
            imported("nccl-tests", log, options)


@given(st.integers(2, 4096), st.floats(1, 1e9), st.integers(1, 1 << 40))
def test_rounded_bandwidths_are_never_refused(ranks: int, time_us: float, size: int) -> None:
    bandwidths = size / time_us / 1e3, bus_bandwidth_Bps(size, ranks, time_us * 1e-6) / 1e9
    seconds, algorithm, bus = round(time_us, 2) * 1e-6, *(round(GBps, 2) for GBps in bandwidths)
    row = NcclTime("here", ranks, "float", "sum", size, None, seconds, algorithm, bus, False)
    check_bandwidths([row])


@pytest.mark.parametrize(
    "text",
    [
        "9" * 5000 + " 1 float sum\n",
        NEW.replace("10.00", "nan"),
        "1 " * 600_000,
        "{" * 100_000,
    ],
    ids=lambda text: f"{text:.12}",
)
def test_hostile_bytes_are_refused(log: Path, text: str) -> None:
    log.write_text(text)
    with pytest.raises(BadInput, match=str(log)):
        list(FORMATS["nccl-tests"].reader(log, ReaderOptions()))
