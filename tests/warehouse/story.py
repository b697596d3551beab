"""A small history that has something of everything, with figures a reader can check by hand."""

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import polars as pl

from tests.warehouse.conftest import at
from warehouse.records import Price, Recommendation

if TYPE_CHECKING:
    from tests.warehouse.conftest import Maker

WATCHING = "watch.emu.avx2.1c"
# One worker at 3.06 and a server at 0.6 US dollars per hour.
PRICES = {"emu.avx2.1c": 3.06, "emu.server": 0.6}


def tell(make: "Maker") -> None:
    """Fill a warehouse: profiles, a fit, a prediction of two workers that is judged, and more."""
    _profiles(make)
    make.warehouse.load()
    fit = make.fit("p1")
    make.warehouse.record_fit(fit)
    make.warehouse.record_predictions([make.prediction(fit, make.scenario(2), 3.0)])
    _publish(make)
    _recommend(make)
    make.measure("m1", make.scenario(1), [1.2, 1.4], minute=5)
    make.measure("m2", make.scenario(2), [2.4, 2.6], minute=6)
    failed = make.run("m3", make.scenario(4), "measurement", minute=7)
    failed = failed.model_copy(update={"status": "failed", "error": "out of memory"})
    make.land(failed, make.scenario(4))
    _watch(make)
    _rent(make)
    make.warehouse.load()


def _publish(make: "Maker") -> None:
    """Seal what was forecast, and load what was sealed."""
    with TemporaryDirectory() as folder:
        make.warehouse.seal("demo", 1, [make.scenario(2)], Path(folder), at(4))
        make.warehouse.load_sealed(Path(folder))


def _profiles(make: "Maker") -> None:
    scenario = make.scenario(1)
    operations = {
        "operation": [0, 1, 2],
        "name": ["a", "b", "c"],
        "type": ["Conv2D", "Relu", "Conv2D"],
        "resource": ["worker"] * 3,
        "input_bytes": [4096, 1024, 4096],
        "device": ["host"] * 3,
    }
    durations = {"step": [0, 0, 0, 1, 1, 1], "operation": [0, 1, 2] * 2}
    timing = durations | {"start_us": [0, 40, 50] * 2, "duration_us": [40, 10, 50, 60, 10, 30]}
    sample = pl.DataFrame({"metric": ["step_time_s"], "unit": ["s"], "value": [0.0002]})
    tables = {
        "operation": pl.DataFrame(operations),
        "timing": pl.DataFrame(timing),
        "sample": sample.with_columns(window=pl.lit(None, pl.Int16)),
    }
    make.land(make.run("p1", scenario, "profile"), scenario, tables)
    means = {"operation": [0, 1, 2], "steps": [100] * 3, "mean_us": [80.0, 20.0, 100.0]}
    others = {name: [9.0] * 3 for name in ("median_us", "sd_us", "min_us", "p95_us")}
    times = {"operation": pl.DataFrame(operations), "operation_time": pl.DataFrame(means | others)}
    vgg = make.scenario(1, dnn="vgg11")
    make.land(make.run("p2", vgg, "profile"), vgg, times)
    make.land(make.run("links", None, "profile"), None, {"link": _links()})
    capture(make)
    make.land(make.run("prices", None, "profile"), None, {"price": _prices()})
    imported = make.run("theirs", None, "measurement").model_copy(update={"backend": "imported"})
    make.land(imported, None, _imported())


def capture(make: "Maker") -> None:
    """Land a captured step on loopback, and the link it was on: 1 MB/s, a byte each microsecond.

    Streams of 400 and 300 bytes are asked for after 0 and 100 us, and one of 200 after 1000 us.
    They would end after 400, 700 and 1200 us; their last packets come after 500, 700 and 1000 us,
    their records end 40, 30 and 20 us later. Of 930 us of processor time the server needs 30 for
    its one update.
    """
    loopback = {"backend": "loopback"}
    config = {"config": {"link_mbps": 150.0}}
    link = pl.DataFrame(
        [("downlink", 1, 0, 0, 1.0, 10**6, 1e6)],
        schema=["direction", "flows", "flow", "trial", "seconds", "bytes", "bandwidth_Bps"],
        orient="row",
    )
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
    names = {
        "operation": ["operation", "name", "type", "resource", "server", "size_bytes"],
        "timing": ["step", "operation", "start_us", "duration_us"],
        "step": ["worker", "step", "traced", "start_us", "end_us"],
        "stream": [
            *["step", "direction", "worker", "server", "stream", "operation"],
            *["size_bytes", "first_us", "last_us", "segments"],
        ],
        "http2_frame": [
            *["worker", "server", "direction", "sender", "type", "stream"],
            *["time_us", "length_bytes", "value"],
        ],
        "sample": ["metric", "unit", "value"],
    }
    tables: dict[str, Sequence[tuple[object, ...]]] = {
        "operation": [
            *[(i, f"read{i}", "Recv", "downlink", 0, size) for i, _, size, *_ in rows],
            (3, "update", "ApplyGradientDescent", "ps", 0, None),
        ],
        "timing": [*timing, (0, 3, 1500, 30)],
        "step": [(0, 0, True, began_us, began_us + 2000), (0, 0, False, 0, 9)],
        "stream": streams,
        "http2_frame": frames,
        "sample": [("server_cpu_s_per_step", "s", 0.00093)],
    }
    return {
        name: pl.DataFrame(table, schema=names[name], orient="row")
        for name, table in tables.items()
    }


def _links() -> pl.DataFrame:
    """Two trials of two flows: 6 and 2, then 5 and 3 million bytes per step_s."""
    speeds = [6e6, 2e6, 5e6, 3e6]
    return pl.DataFrame(
        {
            "direction": ["uplink"] * 4,
            "flows": [2] * 4,
            "flow": [0, 1, 0, 1],
            "trial": [0, 0, 1, 1],
            "seconds": [1.0] * 4,
            "bytes": [int(speed) for speed in speeds],
            "bandwidth_Bps": speeds,
            "retransmits": [1, 2, 3, 4],
        }
    )


def _prices() -> pl.DataFrame:
    rows = [
        ("stepcast", node_type, "here", "on_demand", price, at(minute), "config")
        for node_type, newest in PRICES.items()
        for minute, price in ((0, newest * 2), (60, newest))
    ]
    names = ["provider", "node_type", "region", "market", "usd_per_hour", "observed_at", "source"]
    return pl.DataFrame(rows, schema=names, orient="row")


def _imported() -> dict[str, pl.DataFrame]:
    source = {
        "format": ["csv"],
        "file_name": ["steps.csv"],
        "sha256": ["0" * 64],
        "source": ["somebody"],
        "licence": ["CC-BY-4.0"],
        "imported_at": [at(0)],
    }
    external = {
        "row_number": [1, 2],
        "subject": ['{"dnn": "vgg11"}'] * 2,
        "metric": ["step_time_s"] * 2,
        "unit": ["s"] * 2,
        "value": [0.5, None],
        "repeat": [1, 2],
    }
    return {"source": pl.DataFrame(source), "external": pl.DataFrame(external)}


def _watch(make: "Maker") -> None:
    """Two nights of a watch, of which one finds steps slower by a half, and a visit afterwards."""
    for minute in (20, 30, 31):
        watched = make.run(f"watch-{minute}", None, "profile", minute=minute, study=WATCHING)
        make.land(watched.model_copy(update={"probe": "watch"}), None)
    visit = make.run("links-40", None, "profile", minute=40, study="fleet.emu.avx2.1c")
    make.land(visit.model_copy(update={"probe": "links"}), None)
    for minute, step_s, confirmed_by in ((21, 0.2, None), (32, 0.3, "watch-31")):
        is_slow = confirmed_by is not None
        rows = {
            "node_type": ["emu.avx2.1c"] * 3,
            "metric": ["watch_step_time_s", "watch_step_cpu_s", "watch_memory_Bps"],
            "unit": ["s", "s", "B/s"],
            "value": [step_s, step_s, 5e9],
            "expected": [0.2, 0.2, None],
            "change_percent": [500 * (step_s - 0.2), 400 * (step_s - 0.2), None],
            "robust_z": [100 * (step_s - 0.2), 90 * (step_s - 0.2), None],
            "earlier_n": [6, 6, 2],
            "outcome": ["slower" if is_slow else "same"] * 2 + ["too_few"],
            "alarm": [is_slow, is_slow, False],
            "confirmed": [is_slow or None, False if is_slow else None, None],
            "watched": ["watch-30" if is_slow else "watch-20"] * 3,
            "confirmed_by": [confirmed_by] * 3,
        }
        judge = make.run(f"judge-{minute}", None, "profile", minute=minute, study=WATCHING)
        judge = judge.model_copy(update={"probe": "drift"})
        schema = {"confirmed": pl.Boolean, "confirmed_by": pl.String}
        make.land(judge, None, {"judgement": pl.DataFrame(rows, schema_overrides=schema)})


def _rent(make: "Maker") -> None:
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


def _recommend(make: "Maker") -> None:
    price = Price(
        provider="stepcast",
        node_type="emu.avx2.1c",
        market="on_demand",
        usd_per_hour=3.06,
        observed_at=at(60),
        source="config",
    )
    make.warehouse.record_recommendation(
        Recommendation(
            system="async_sgd",
            backend="emulated",
            job={"dnn": "cnn"},
            objective="cost",
            constraints={},
            choice={"node_type": "emu.avx2.1c", "count": 2},
            alternatives=(),
            price_snapshot=make.warehouse.record_prices([price]),
            fit_ids=(make.fit("p1").fit_id,),
            code_version="v1",
            made_at=at(3),
        )
    )
