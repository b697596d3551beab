"""nccl-tests of several ages: columns by their headers, units, ranks, what is refused."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from profilers.readers.contract import ReaderOptions
from profilers.readers.formats import FORMATS
from profilers.readers.nccl_log import NcclTime, RoundedNumber
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
OLD = """\
# NCCL Tests compiled with NCCL 2.0
#   Rank  0 on node-a device  0 [0x04] GeForce GTX TITAN X
#   Rank  1 on node-a device  1 [0x05] GeForce GTX TITAN X
#     bytes        N   type   op   time  algbw  busbw    res   time  algbw  busbw    res
   10000000  2500000  float  sum  2.500   4.00   4.00  1e-06  2.000   5.00   5.00  2e-06
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


def test_an_old_log_has_milliseconds_and_deviations(log: Path) -> None:
    log.write_text(OLD)
    rows = only("nccl-tests", log).tables["allreduce"].sort("in_place")
    assert rows["seconds"].to_list() == pytest.approx([2.5e-3, 2.0e-3])
    log.write_text(OLD.replace("4.00   4.00", "4.50   4.50"))
    with pytest.raises(BadInput, match=r"line 5: no line .* does not tell the unit"):
        only("nccl-tests", log)


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


@pytest.mark.parametrize("label", ["[0]", "[1,0]<stdout>:", "[rank0]:"])
def test_a_label_also_stands_where_a_row_went_on_after_a_pause(log: Path, label: str) -> None:
    log.write_text(NEW)
    bare = only("nccl-tests", log)
    labelled = [
        " ".join([label, *(word + label * (place in (4, 8)) for place, word in enumerate(words))])
        if not line.startswith("#") and len(words := line.split()) > 8
        else f"{label} {line}"
        for line in NEW.splitlines()
    ]
    assert any(line.count(label) == 3 for line in labelled)
    log.write_text("\n".join(labelled))
    assert only("nccl-tests", log).tables["allreduce"].equals(bare.tables["allreduce"])


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
            "line 13: .* is 1.500000, .* 2 ranks has 1.000000; no number .* is it another",
        ),
        (
            NEW.replace(" 400.00", " 40.00"),
            "line 13: 4000000 bytes in 4e-05 s are 100 GB/s, .* is 10;",
        ),
        (
            NEW.replace("  time", " cputime"),
            "line 12: the times are those in which the CPU started",
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


def cut(*bandwidths: tuple[str, str]) -> str:
    """Return a log of more ranks than the two it lists, of 1 GB each."""
    header, _, _ = NEW.partition("     1024")
    rows = (
        f" 1000000000 250000000 float sum -1 {1e6 / float(algorithm):.1f} {algorithm} {bus} N/A "
        f"{1e6 / float(algorithm):.1f} {algorithm} {bus} N/A\n"
        for algorithm, bus in bandwidths
    )
    return header + "".join(rows)


@pytest.mark.parametrize(
    ("bandwidths", "asked"),
    [
        # 2 (n - 1) / n of 4, 1024, 4000 and 20 ranks.
        (
            [("10.00", "15.00")],
            r"is 1\.500000, .* those of 4 to 4 ranks: say how many with --world-size$",
        ),
        ([("200.0", "399.9")], "those of [0-9]+ ranks or more: say how many with --world-size$"),
        ([("20.0", "38.0")], "those of 19 to 21 ranks: say how many with --world-size$"),
        ([("10.00", "7.50")], "no number of ranks gives that: is it another collective"),
    ],
)
def test_a_list_of_ranks_that_was_cut(
    log: Path, bandwidths: list[tuple[str, str]], asked: str
) -> None:
    log.write_text(cut(*bandwidths))
    with pytest.raises(BadInput, match=asked):
        imported("nccl-tests", log)


def test_ranks_that_the_bandwidths_confirm(log: Path) -> None:
    log.write_text(cut(("183.83", "367.29")))
    run = only("nccl-tests", log, ReaderOptions(world_size=1024))
    rows = run.tables["allreduce"]
    assert rows["bus_bandwidth_Bps"].to_list() == pytest.approx([367.3e9] * 2, rel=1e-4)
    # 1.980 and 1.998 differ by less than a hundredth.
    with pytest.raises(BadInput, match=r"is 1\.99798\d, .* of 100 ranks has 1\.980000; "):
        imported("nccl-tests", log, ReaderOptions(world_size=100))


@given(
    st.integers(2, 4096),
    st.floats(1e-6, 1e3),
    st.integers(1, 1 << 40),
    st.sampled_from([".2f", ".1f", ".0f", ".0e"]),
)
def test_rounded_bandwidths_are_never_refused(
    ranks: int, seconds: float, size: int, digits: str
) -> None:
    printed = [
        RoundedNumber.of(f"{number:{digits}}")
        for number in (
            seconds * 1e6,
            size / seconds / 1e9,
            bus_bandwidth_Bps(size, ranks, seconds) / 1e9,
        )
    ]
    time, algorithm, bus = printed
    assert time is not None
    check_bandwidths(
        [NcclTime("here", ranks, "float", "sum", size, None, time, 1e-6, algorithm, bus, False)]
    )


@pytest.mark.parametrize(
    "text",
    ["9" * 5000 + " 1 float sum\n", NEW.replace("10.00", "nan"), "1 " * 600_000, "{" * 100_000],
    ids=lambda text: f"{text:.12}",
)
def test_hostile_bytes_are_refused(log: Path, text: str) -> None:
    log.write_text(text)
    with pytest.raises(BadInput, match=str(log)):
        list(FORMATS["nccl-tests"].reader(log, ReaderOptions()))
