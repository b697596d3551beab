"""Links of 1 MB/s, 1 byte per microsecond: figures are microseconds and bytes alike."""

from dataclasses import replace

import pytest

from models.async_sgd.graph import Resource
from models.async_sgd.trace import with_parsed, with_parsing
from tests.models.async_sgd.graphs import D, Op, P, U, W, job

SPEED_BPS = {D: 1e6, U: 1e6}


def test_a_transfer_is_cut_where_the_link_had_sent_it() -> None:
    graph, _ = job(Op(D, 100), Op(W, 1, (0,)))
    assert with_parsed(graph, [(5, 145), (145, 200)], [0], SPEED_BPS) == [
        (5, 105),
        (145, 200),
        (105, 145),
    ]


def test_a_link_sends_one_after_the_other() -> None:
    """The second (0) waits until 110 for the first; the third comes to an idle link."""
    graph, _ = job(Op(D, 50), Op(D, 100), Op(D, 7))
    cut = with_parsed(graph, [(20, 200), (10, 300), (400, 407)], [0, 1, 2], SPEED_BPS)
    assert cut[:3] == [(20, 160), (10, 110), (400, 407)]
    assert cut[3:] == [(160, 200), (110, 300), (407, 407)]


def test_directions_have_links_of_their_own_and_servers_share_the_worker_s() -> None:
    """Server 1 sends 40 beside server 0 from 20 on: until 100, when server 0 has 40 of 100 left."""
    graph, _ = job(Op(D, 100), Op(U, 100), Op(D, 40), Op(D, 30))
    apart = replace(graph, servers=(0, 0, 1, 0))
    recorded = [(0, 500), (0, 500), (20, 500), (30, 500)]
    cut = with_parsed(apart, recorded, [0, 1, 2, 3], {D: 1e6, U: 2e6})
    assert cut[:4] == [(0, 140), (0, 50), (20, 100), (30, 170)]


def test_a_captured_transfer_of_one_server_lets_the_other_send() -> None:
    """Server 0's first one was seen until 80, so its second one sends from 80 to 90."""
    graph, _ = job(Op(D, 100), Op(D, 10), Op(D, 40))
    apart = replace(graph, servers=(0, 0, 1))
    cut = with_parsed(apart, [(0, 500), (1, 500), (0, 500)], [0, 1, 2], SPEED_BPS, {0: (5, 80)})
    assert cut[:3] == [(5, 80), (1, 90), (0, 40)]


def test_a_record_shorter_than_the_link_allows_leaves_no_parsing() -> None:
    """The link is busy until 100 all the same: the second is sent at 150."""
    graph, _ = job(Op(D, 100), Op(D, 50))
    cut = with_parsed(graph, [(0, 90), (10, 170)], [0, 1], SPEED_BPS)
    assert cut == [(0, 90), (10, 150), (90, 90), (150, 170)]


def test_captured_packets_say_where_to_cut() -> None:
    """0 was captured: its first packet came late, its last after what the link would need.

    The link is busy until then for 1, which was not; packets outside a record count as its ends.
    """
    graph, _ = job(Op(D, 100), Op(D, 10), Op(D, 5))
    recorded = [(5, 145), (7, 160), (200, 260)]
    cut = with_parsed(graph, recorded, [0, 1, 2], SPEED_BPS, {0: (20, 130), 2: (190, 270)})
    assert cut[:3] == [(20, 130), (7, 140), (200, 260)]
    assert cut[3:] == [(130, 145), (140, 160), (260, 260)]


@pytest.mark.parametrize(("link", "receiver"), [(D, W), (U, P)])
def test_the_receiver_parses_before_anything_else_goes_on(
    link: Resource, receiver: Resource
) -> None:
    graph, _ = job(Op(P, 1), Op(link, 100, (0,)), Op(W, 1, (1,)), Op(P, 1, (1,)))
    parsed = with_parsing(graph, [1])
    name = f"{graph.names[1]}/parsing"
    assert (parsed.names, parsed.resources[4]) == ((*graph.names, name), receiver)
    assert (parsed.sizes_bytes[1], parsed.sizes_bytes[4]) == (100, 0)
    assert parsed.successors == ((1,), (4,), (), (), (2, 3))
