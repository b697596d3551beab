"""Reports of iperf3: directions, flows, trials, and what is refused."""

import json
from pathlib import Path
from typing import Any

import pytest

from profilers.readers.contract import ReaderOptions
from profilers.readers.formats import FORMATS
from tests.profilers.readers.imports import imported, only
from warehouse.records import BadInput


def report(*sends: bool, reverse: int = 0) -> dict[str, Any]:
    """Return a report with a stream for each of `sends`: whether the client sends."""
    stream = {"seconds": 2.0, "bytes": 1000, "bits_per_second": 4000.0}
    return {
        "start": {
            "version": "iperf 3.12",
            "system_info": "Linux a 6.1",
            "timestamp": {"timesecs": 1_700_000_000},
            "test_start": {"protocol": "TCP", "duration": 2, "reverse": reverse},
        },
        "end": {
            "streams": [
                {
                    "sender": {**stream, "bytes": 1200, "retransmits": 3, "sender": sent},
                    "receiver": {**stream, "sender": sent},
                }
                for sent in sends
            ]
        },
    }


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "iperf3.json"


def test_figures_are_the_receivers(file: Path) -> None:
    file.write_text(json.dumps(report(True, True)))
    run = only("iperf3", file)
    link = run.tables["link"]
    assert link["direction"].to_list() == ["uplink", "uplink"]
    assert link["flow"].to_list() == [0, 1]
    assert set(link["flows"]) == {2}
    assert link.row(0, named=True) | {"flow": 0} == {
        "direction": "uplink",
        "flows": 2,
        "flow": 0,
        "trial": 0,
        "seconds": 2.0,
        "bytes": 1000,
        "bandwidth_Bps": 500.0,
        "retransmits": 3,
    }
    assert run.started_at is not None
    assert run.started_at.isoformat() == "2023-11-14T22:13:20+00:00"
    assert run.software == {"iperf3": "3.12"}


def test_reverse_and_both_ways(file: Path) -> None:
    file.write_text(json.dumps(report(False, reverse=1)) + "\n" + json.dumps(report(True, False)))
    link = only("iperf3", file).tables["link"]
    assert link.select("direction", "flows", "trial").rows() == [
        ("downlink", 1, 0),
        ("uplink", 1, 0),
        ("downlink", 1, 1),
    ]


def test_releases_that_do_not_say_who_sent(file: Path) -> None:
    old = report(True, reverse=1)
    del old["end"]["streams"][0]["sender"]["sender"]
    file.write_text(json.dumps([old]))
    assert only("iperf3", file).tables["link"]["direction"].to_list() == ["downlink"]


def test_failed_tests_and_intervals_are_counted(file: Path) -> None:
    failed = json.dumps({"start": {}, "error": "unable to connect"})
    file.write_text(failed + json.dumps(report(True) | {"intervals": [{}, {}]}))
    run = only("iperf3", file)
    assert run.tables["link"].height == 1
    assert run.left_out == {"tests that failed": 1, "intervals": 2}


def test_a_server_that_sends_does_not_know_what_arrived(file: Path) -> None:
    whole = report(True, False)
    whole["start"]["accepted_connection"] = {"host": "10.0.0.1", "port": 40000}
    whole["end"]["streams"][0]["receiver"] |= {"bytes": 0, "bits_per_second": 0}
    file.write_text(json.dumps(whole))
    run = only("iperf3", file)
    assert run.tables["link"]["direction"].to_list() == ["uplink"]
    assert run.left_out == {"flows whose receiver is not in the report": 1}


def test_both_ways_with_several_flows(file: Path) -> None:
    whole = report(True, True, False, False)
    whole["start"]["test_start"] |= {"bidir": 1, "num_streams": 2}
    file.write_text(json.dumps(whole))
    link = only("iperf3", file).tables["link"]
    assert link.select("direction", "flows", "flow").rows() == [
        ("uplink", 2, 0),
        ("uplink", 2, 1),
        ("downlink", 2, 0),
        ("downlink", 2, 1),
    ]
    for stream in whole["end"]["streams"]:
        del stream["sender"]["sender"]
    file.write_text(json.dumps(whole))
    with pytest.raises(BadInput, match="line 1: both ends sent, and no stream says which"):
        imported("iperf3", file)


def test_a_size_that_was_asked_for_is_no_duration(file: Path) -> None:
    whole = report(True)
    whole["start"]["test_start"] |= {"duration": 0, "bytes": 1000}
    file.write_text(json.dumps(whole))
    config = only("iperf3", file).config
    assert (config["seconds"], config["bytes"]) == (None, 1000)


def with_receiver(**values: Any) -> str:
    whole = report(True)
    whole["end"]["streams"][0]["receiver"] |= values
    return json.dumps(whole)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (with_receiver(bytes=1100), "line 1, stream 1 uplink: 1,100 bytes are not 4,000 bit/s"),
        (with_receiver(seconds=0), "1,000 bytes are not 4,000 bit/s in any"),
        ("", "it is empty"),
        (json.dumps({"error": "unable to connect"}), "iperf3 failed there .'unable to connect"),
        (json.dumps(report(True)).replace("TCP", "UDP"), "measures 'UDP'; expected a TCP test"),
        ("[1]", "expected a report of iperf3 --json, found 1"),
        ('{"event": "start", "data": {}}', "expected a report of iperf3 --json, found {'event"),
        (json.dumps(report(True)).replace("1700000000", "1e300"), "timesecs"),
        (json.dumps(report(True)).replace("1000", "1e400"), "bytes"),
        (json.dumps(report(True) | {"end": {"streams": []}}), "no flow with its receiver's"),
    ],
    ids=lambda text: f"{text:.12}",
)
def test_what_is_refused(file: Path, text: str, message: str) -> None:
    file.write_text(text)
    with pytest.raises(BadInput, match=message):
        list(FORMATS["iperf3"].reader(file, ReaderOptions()))


def test_seconds_are_those_of_the_bandwidth(file: Path) -> None:
    """Reports give the sender's seconds beside the receiver's start and end."""
    times = {"start": 0, "end": 19.440951, "seconds": 19.199383, "bytes": 202_362_368}
    file.write_text(with_receiver(**times, bits_per_second=83272620.97414885))
    assert only("iperf3", file).tables["link"]["seconds"].to_list() == [19.440951]
    file.write_text(with_receiver(**times, bits_per_second=87552680.20852545))
    with pytest.raises(BadInput, match=r"bytes are not .* in any of the seconds given"):
        imported("iperf3", file)
