"""Times of collectives: closed forms, what a fit finds again, and what it does not know."""

from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from pydantic import TypeAdapter

from models.gpu_step.collectives import NINE_OF_TEN, TIMED, Collective, Collectives, Topology, fit

USUAL = fit(pl.DataFrame(schema=TIMED))
NODE = Topology(8, 1, 300e9, 50e9)
SIZES = np.array(4096.0 * 2.0 ** np.arange(19), dtype=np.float64)


def seconds(
    collectives: Collectives,
    topology: Topology,
    *sizes_bytes: float,
    collective: Collective = "all_reduce",
) -> list[float]:
    return collectives.seconds(collective, np.array(sizes_bytes), topology).tolist()


def timed(slower: float, topology: Topology, cluster: str = "ours p9") -> pl.DataFrame:
    """Return all-reduces that take so many times as long as the closed form says."""
    columns = vars(topology) | {"collective": "all_reduce", "cluster": cluster}
    values = slower * USUAL.seconds("all_reduce", SIZES, topology)
    return pl.DataFrame({"size_bytes": SIZES, "seconds": values} | columns).select(*TIMED)


def test_large_messages_cost_their_bytes_over_links_or_the_network() -> None:
    (within,) = seconds(USUAL, NODE, 1e11)
    assert within == pytest.approx(1.3 * 2 * 7 / 8 * 1e11 / 300e9, rel=0.01)
    # One GPU of a node has nothing to do within.
    (across,) = seconds(USUAL, Topology(1, 4, 300e9, 50e9), 1e11)
    assert across == pytest.approx(2 * 3 / 4 * 1e11 / 50e9, rel=0.01)
    # The ring is of all GPUs: slow networks leave the links of nodes idle.
    (sockets,) = seconds(USUAL, Topology(8, 4, 300e9, 1e9), 1e11)
    assert sockets == pytest.approx(2 * 31 / 32 * 1e11 / 1e9, rel=0.01)


def test_small_messages_cost_the_levels_of_a_tree() -> None:
    times = [seconds(USUAL, Topology(8, nodes, 300e9, 50e9), 8.0)[0] for nodes in (2, 4, 8, 16)]
    steps = np.diff(times)
    assert steps == pytest.approx([steps[0]] * 3, rel=1e-3)
    assert steps[0] > 0


def test_one_gpu_exchanges_nothing_and_other_collectives_go_around_once() -> None:
    assert seconds(USUAL, Topology(1, 1, 300e9, 50e9), 1e9) == [0.0]
    (reduction,) = seconds(USUAL, NODE, 1e10)
    for collective in ("all_gather", "reduce_scatter", "all_to_all"):
        (once,) = seconds(USUAL, NODE, 1e10, collective=collective)
        assert once == pytest.approx(reduction / 2, rel=0.01)
    # Across nodes, each of eight GPUs has a buffer of its own for all others.
    across = Topology(8, 2, 1e15, 50e9)
    gather, exchange = (
        seconds(USUAL, across, 1e10, collective=each)[0] for each in ("all_gather", "all_to_all")
    )
    assert exchange == pytest.approx(8 * gather, rel=0.01)


def test_a_cluster_is_found_again_at_other_sizes_nodes_and_collectives() -> None:
    known, unseen = Topology(4, 2, 300e9, 50e9), Topology(4, 4, 300e9, 50e9)
    fitted = fit(timed(2.0, known))
    cases: tuple[tuple[Topology, Collective], ...] = ((known, "all_reduce"), (unseen, "all_gather"))
    for topology, collective in cases:
        slower = (
            seconds(fitted, replace(topology, cluster="ours p9"), 3e7, collective=collective)[0]
            / seconds(USUAL, topology, 3e7, collective=collective)[0]
        )
        assert slower == pytest.approx(2.0, rel=0.2)
    # Others are like it, but less so.
    assert 1.0 < seconds(fitted, known, 3e7)[0] / seconds(USUAL, known, 3e7)[0] < 1.6


def test_what_nobody_timed_is_known_less_well_and_set_ups_that_differ_say_so() -> None:
    topology = Topology(8, 2, 300e9, 50e9)
    fitted = fit(pl.concat([timed(1.0, topology, "a one"), timed(1.4, topology, "b two")]))

    def spread(cluster: str) -> float:
        asked = replace(topology, cluster=cluster)
        (middle,), (slow,) = (
            seconds(each, asked, 1e9) for each in (fitted, replace(fitted, deviations=1.645))
        )
        return slow / middle

    assert spread("a one") < 1.15
    # Both are within what is said of a third.
    assert spread("c three") > 1.4


def test_intervals_are_as_wide_as_clusters_differ_that_are_left_out() -> None:
    """Four clusters within 2 % of each other: a fifth is as near, and its interval says so."""
    topology = Topology(8, 2, 300e9, 50e9)

    def spread(*slowness: float) -> float:
        parts = [timed(each, topology, f"source c{place}") for place, each in enumerate(slowness)]
        fitted = fit(pl.concat(parts)).with_widths()
        asked = replace(topology, cluster="source other")
        (middle,), (slow,) = (
            seconds(each, asked, 1e9) for each in (fitted, replace(fitted, deviations=NINE_OF_TEN))
        )
        return slow / middle

    assert spread(1.0, 1.02, 0.99, 1.01) < 1.05 < 1.3 < spread(1.0, 1.5, 0.7, 1.2) < 3


def test_a_fit_is_the_same_after_json() -> None:
    fitted = fit(pl.concat([timed(1.5, NODE), timed(2.0, Topology(4, 2, 300e9, 50e9))]))
    in_json = TypeAdapter(Collectives)
    again = in_json.validate_json(in_json.dump_json(fitted))
    for topology in (NODE, Topology(8, 4, 300e9, 50e9)):
        assert seconds(again, topology, *SIZES) == seconds(fitted, topology, *SIZES)
