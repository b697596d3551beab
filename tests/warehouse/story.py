"""A small history that has something of everything, with figures a reader can check by hand."""

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import polars as pl

from tests.made_run import made_price, raw_table
from tests.warehouse.conftest import Maker, at
from warehouse.ledger import price_snapshot

SAMPLE = "metric unit window value"
LINK = "direction flows flow trial seconds bytes bandwidth_Bps retransmits"
SOURCE = "format file_name sha256 source licence imported_at"
JUDGEMENT = (
    "node_type metric unit value expected change_percent robust_z earlier_n outcome alarm "
    "confirmed watched confirmed_by"
)
WATCHING = "watch.emu.avx2.1c"
# One worker at 3.06 and a server at 0.6 US dollars per hour.
PRICES = {"emu.avx2.1c": 3.06, "emu.server": 0.6}


def tell(make: Maker) -> None:
    """Fill a warehouse: profiles, a fit, a prediction of two workers that is judged, and more."""
    _profiles(make)
    make.warehouse.load()
    make.forecast({2: 3.0})
    _publish(make)
    price = made_price("emu.avx2.1c", 3.06, provider="stepcast", observed_at=at(60))
    make.warehouse.record_recommendation(make.recommendation(price_snapshot([price])), [price])
    make.measure("m1", make.scenario(1), [1.2, 1.4], minute=5)
    make.measure("m2", make.scenario(2), [2.4, 2.6], minute=6)
    failed = make.run("m3", make.scenario(4), "measurement", minute=7)
    failed = failed.model_copy(update={"status": "failed", "error": "out of memory"})
    make.land(failed, make.scenario(4))
    _watch(make)
    _rent(make)
    make.warehouse.load()


def _publish(make: Maker) -> None:
    """Seal what was forecast, and load what was sealed."""
    with TemporaryDirectory() as folder:
        make.warehouse.seal("demo", 1, [make.scenario(2)], Path(folder), at(4))
        make.warehouse.load_sealed(Path(folder))


def _profiles(make: Maker) -> None:
    scenario = make.scenario(1)
    operations = raw_table(
        "operation",
        "operation name type resource input_bytes device",
        [
            (0, "a", "Conv2D", "worker", 4096, "host"),
            (1, "b", "Relu", "worker", 1024, "host"),
            (2, "c", "Conv2D", "worker", 4096, "host"),
        ],
    )
    durations_us = [(40, 10, 50), (60, 10, 30)]
    timing = [
        (step, operation, (0, 40, 50)[operation], duration_us)
        for step, each in enumerate(durations_us)
        for operation, duration_us in enumerate(each)
    ]
    tables = {
        "operation": operations,
        "timing": raw_table("timing", "step operation start_us duration_us", timing),
        "sample": raw_table("sample", SAMPLE, [("step_time_s", "s", None, 0.0002)]),
    }
    make.land(make.run("p1", scenario, "profile"), scenario, tables)
    means = [(place, 100, mean_us, *[9.0] * 4) for place, mean_us in enumerate((80.0, 20.0, 100.0))]
    statistics = "operation steps mean_us median_us sd_us min_us p95_us"
    times = {
        "operation": operations,
        "operation_time": raw_table("operation_time", statistics, means),
    }
    vgg = make.scenario(1, dnn="vgg11")
    make.land(make.run("p2", vgg, "profile"), vgg, times)
    make.land(make.run("links", None, "profile"), None, {"link": _links()})
    capture(make)
    make.land(make.run("prices", None, "profile"), None, {"price": _prices()})
    imported = make.run("theirs", None, "measurement").model_copy(update={"backend": "imported"})
    make.land(imported, None, _imported())


def capture(make: Maker) -> None:
    """Land a captured step on loopback, and the link it was on: 1 MB/s, a byte each microsecond.

    Streams of 400 and 300 bytes are asked for after 0 and 100 us, and one of 200 after 1000 us.
    They would end after 400, 700 and 1200 us; their last packets come after 500, 700 and 1000 us,
    their records end 40, 30 and 20 us later. Of 930 us of processor time the server needs 30 for
    its one update.
    """
    loopback = {"backend": "loopback"}
    config = {"config": {"link_mbps": 150.0}}
    link = raw_table("link", LINK, [("downlink", 1, 0, 0, 1.0, 10**6, 1e6, None)])
    probed = make.run("seen_link", None, "profile").model_copy(update={**loopback, **config})
    make.land(probed, None, {"link": link})
    scenario = make.scenario(1, dnn="alexnet")
    run = make.run("seen", scenario, "profile").model_copy(update=loopback)
    make.land(run, scenario, _captured())


def _captured() -> dict[str, pl.DataFrame]:
    rows = [(0, 1, 400, 0, 10, 500), (1, 3, 300, 100, 500, 700), (2, 5, 200, 1000, 1000, 1000)]
    began_us = 10**15
    timing, streams = [], []
    for operation, stream, size_bytes, start_us, first_us, last_us in rows:
        timing.append((0, operation, start_us, last_us + size_bytes // 10 - start_us))
        times = began_us + first_us, began_us + last_us
        streams.append((0, "downlink", 0, 0, stream, operation, size_bytes, *times, 1))
    frames = [
        (0, 0, "downlink", "worker", "SETTINGS", 0, began_us - 9, 6, 2**22),
        (0, 0, "downlink", "worker", "SETTINGS", 0, began_us, 6, 2**23),
        (0, 0, "downlink", "server", "SETTINGS", 0, began_us, 6, 2**24),
    ]
    operations = [
        *((i, f"read{i}", "Recv", "downlink", 0, size) for i, _, size, *_ in rows),
        (3, "update", "ApplyGradientDescent", "ps", 0, None),
    ]
    steps = [(0, 0, True, began_us, began_us + 2000), (0, 0, False, 0, 9)]
    timing.append((0, 3, 1500, 30))
    tables: dict[str, tuple[str, Sequence[tuple[object, ...]]]] = {
        "operation": ("operation name type resource server size_bytes", operations),
        "timing": ("step operation start_us duration_us", timing),
        "step": ("worker step traced start_us end_us", steps),
        "stream": (
            "step direction worker server stream operation size_bytes first_us last_us segments",
            streams,
        ),
        "http2_frame": (
            "worker server direction sender type stream time_us length_bytes value",
            frames,
        ),
        "sample": (SAMPLE, [("server_cpu_s_per_step", "s", None, 0.00093)]),
    }
    return {name: raw_table(name, *columns_and_rows) for name, columns_and_rows in tables.items()}


def _links() -> pl.DataFrame:
    """Two trials of two flows: 6 and 2, then 5 and 3 million bytes per step_s."""
    rows = [
        ("uplink", 2, 0, 0, 1.0, 6_000_000, 6e6, 1),
        ("uplink", 2, 1, 0, 1.0, 2_000_000, 2e6, 2),
        ("uplink", 2, 0, 1, 1.0, 5_000_000, 5e6, 3),
        ("uplink", 2, 1, 1, 1.0, 3_000_000, 3e6, 4),
    ]
    return raw_table("link", LINK, rows)


def _prices() -> pl.DataFrame:
    rows = [
        ("stepcast", node_type, "here", "on_demand", price, at(minute), "config")
        for node_type, newest in PRICES.items()
        for minute, price in ((0, newest * 2), (60, newest))
    ]
    columns = "provider node_type region market usd_per_hour observed_at source"
    return raw_table("price", columns, rows)


def _imported() -> dict[str, pl.DataFrame]:
    source = ("csv", "steps.csv", "0" * 64, "somebody", "CC-BY-4.0", at(0))
    external = [
        (row, '{"dnn": "vgg11"}', "step_time_s", "s", value, row)
        for row, value in enumerate((0.5, None), start=1)
    ]
    return {
        "source": raw_table(
            "source", "format file_name sha256 source licence imported_at", [source]
        ),
        "external": raw_table("external", "row_number subject metric unit value repeat", external),
    }


def _watch(make: Maker) -> None:
    """Two nights of a watch, of which one finds steps slower by a half, and a visit afterwards."""
    for minute in (20, 30, 31):
        watched = make.run(f"watch-{minute}", None, "profile", minute=minute, study=WATCHING)
        make.land(watched.model_copy(update={"probe": "watch"}), None)
    visit = make.run("links-40", None, "profile", minute=40, study="fleet.emu.avx2.1c")
    make.land(visit.model_copy(update={"probe": "links"}), None)
    for minute, step_s, confirmed_by in ((21, 0.2, None), (32, 0.3, "watch-31")):
        is_slow = confirmed_by is not None
        slower = step_s - 0.2
        outcome = "slower" if is_slow else "same"
        of = ("watch-30" if is_slow else "watch-20", confirmed_by)
        rows = [
            ("time_s", "s", step_s, 0.2, 500 * slower, 100 * slower, 6, outcome, is_slow),
            ("cpu_s", "s", step_s, 0.2, 400 * slower, 90 * slower, 6, outcome, is_slow),
        ]
        judged = [
            ("emu.avx2.1c", f"watch_step_{metric}", *row, confirmed if is_slow else None, *of)
            for (metric, *row), confirmed in zip(rows, (True, False), strict=True)
        ]
        few = ("watch_memory_Bps", "B/s", 5e9, None, None, None, 2, "too_few", False, None)
        judged.append(("emu.avx2.1c", *few, *of))
        judge = make.run(f"judge-{minute}", None, "profile", minute=minute, study=WATCHING)
        judge = judge.model_copy(update={"probe": "drift"})
        make.land(judge, None, {"judgement": raw_table("judgement", JUDGEMENT, judged)})


def _rent(make: Maker) -> None:
    """Two launches: one zone has no capacity, the next one has, and its instances end."""
    launch = {"account": "a", "node_type": "m5.large", "instances": 2, "usd": 1.2}
    where = {"region": "us-east-1", "market": "spot", "hours": 1.0}
    rows: list[dict[str, object]] = [
        {"kind": "intent", "token": "t0", "zone": "us-east-1a", **launch, **where},
        {"kind": "refused", "token": "t0", "code": "InsufficientInstanceCapacity", "reason": "no"},
        {"kind": "intent", "token": "t1", "zone": "us-east-1b", **launch, **where},
        {"kind": "launched", "token": "t1", "instance": "i-1"},
        {"kind": "launched", "token": "t1", "instance": "i-2"},
        {"kind": "ended", "instance": "i-1", "seconds": 900.0, "usd": 0.1},
    ]
    rows = [{"entry": place, "written_at": at(place), **row} for place, row in enumerate(rows)]
    run = make.run("renting", None, "profile", minute=6, study="renting")
    run = run.model_copy(update={"probe": "renting", "backend": "imported", "host_id": "aws"})
    make.land(run, None, {"rented": pl.DataFrame(rows, infer_schema_length=None)})
