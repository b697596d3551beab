"""Rows of single GPUs, and steps that wait for their data."""

from dataclasses import replace
from typing import Any, cast

import pytest

from forecasting.forecast import ScenarioForecast
from models.gpu_step import scenario_steps
from models.gpu_step.system import GPU_STEP
from pipelines.cli.device_answer import bounded_by_loader, efficiency, print_devices
from pipelines.cli.tables import significant
from profilers.probe import STEP_TIME
from tests.made_run import made_price
from tests.models.gpu_step.public import made_up_steps, scenario
from tests.models.gpu_step.test_system import model
from tests.profilers.training import single
from warehouse.records import NodeGroup, Strategy

GIB = 2**30
DETAIL: dict[str, Any] = {
    "device": "mine",
    "binds": "host",
    "gpus": 1,
    "step_s": 0.05,
    "alone_s": 0.05,
    "straggling_share": 0.0,
    "most_gpus_judged": 1,
    "exchange_s": None,
    "scaling_percent": None,
    "scaling_n": None,
    "gpu_s": 0.02,
    "host_s": 0.05,
    "waits_s": 0.0,
    "varied_s": 0.0,
    "host_rests_on": "public",
    "fastest_host": 1.0,
    "slowest_host": 1.5,
    "idle_share": 0.6,
    "free_batch_size": 5,
    "product_flops": 1e12,
    "peak_flops_per_s": 1e14,
    "needed_bytes": 10 * GIB,
    "memory_bytes": 24 * GIB,
    "fits": True,
    "largest_batch_size": 4,
    "unknown_share": 0.25,
    "rests_on": "data sheet",
    "data_sheet": "a sheet",
    "past_error_percent": 12.3,
    "past_n": 7,
    "past_devices": [],
    "own_traces": [],
    "own_share": 0.0,
    "own_clusters": [],
    "memory_parts": {
        "standing_bytes": 3 * GIB,
        "activation_bytes": 6 * GIB,
        "optimizer_bytes": 4 * GIB,
        "on_top_bytes": GIB,
    },
    "timed_on": [
        {"share": 0.25, "device": "mine", "dtypes": ["bfloat16", "float32"]},
        {"share": 0.5, "device": "a", "dtypes": ["float16", "float32"]},
        {"share": 0.1, "device": "b", "dtypes": ["bfloat16"]},
        {"share": 0.25, "device": None, "dtypes": []},
    ],
    "costliest": [{"operator": "mm", "calls": 3, "gpu_s": 0.005}],
}


def forecast(**detail: Any) -> ScenarioForecast:
    """Return a step of 0.05 s of four samples of 16 words, at 3.6 dollars an hour."""
    scenario = single(NodeGroup(role="worker", node_type="gpu.mine", count=1), sequence_length=16)
    load = scenario.workload.model_copy(update={"image_size": 0})
    return ScenarioForecast(
        scenario=scenario.model_copy(update={"workload": load}),
        system=GPU_STEP,
        metric=STEP_TIME,
        value=0.05,
        low=0.04,
        high=0.06,
        unknown=None,
        fit=cast(Any, None),
        split="held_out_dnn",
        past=None,
        nearest=(),
        far=None,
        is_new=True,
        prices=(made_price("gpu.mine", 3.6),),
        detail={**DETAIL, **detail},
    )


def lines(
    forecast: ScenarioForecast, capsys: pytest.CaptureFixture[str], **options: Any
) -> list[str]:
    print_devices([forecast], options.get("samples"), explain=options.get("explain", False))
    return capsys.readouterr().out.splitlines()


def test_a_row_says_what_a_user_needs(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two passes of two samples a step: 80 samples a second, 100,000 of them in 1,250 s."""
    monkeypatch.setenv("COLUMNS", "90")
    shown = lines(forecast(), capsys, samples=100_000)
    _, label, titles, _, row, rests, nobody, past, published, waits, host, *_ = shown
    assert label.startswith("small_cnn 16 words b2, bfloat16, adamw, 2 passes a step")
    assert titles.split() == "node type step 90 % in samples/s epoch $/epoch GiB binds".split()
    cells = ["gpu.mine", "50", "ms", "40–60", "80", "20.8", "min", "1.25", "10.0/24", "host"]
    assert row.split() == cells
    assert rests == (
        "  rests on its data sheet and public data of it (25 %), a in float16 (50 %) and 1 more, of"
    )
    assert nobody == "    nobody in that precision (25 %)"
    assert past == "  past error 12 % of unseen GPUs, n = 7"
    assert host.endswith("with the fastest public host 50 ms, with the slowest 75 ms")
    assert published == ("  1,280 tokens/s, $0.781/10⁶ tokens, 20 TFLOP/s a GPU, MFU 20 %")
    assert waits == "  GPU 20 ms, host 50 ms; batches are free at least until 5"


def test_figures_that_are_published_follow_from_step_price_and_flops() -> None:
    """1e12 FLOPs in 0.05 s are 20 TFLOP/s of 100; 64 words cost 3.6 dollars an hour for 0.05 s."""
    usd = 3.6 / 3600 * 0.05 / 64 * 1e6
    told = {"usd_per_million_tokens": usd, "tflop_per_s": 20.0, "mfu": 0.2}
    assert efficiency(forecast()) == pytest.approx(told)
    late = efficiency(bounded_by_loader(forecast(), 40))
    assert late["mfu"] == pytest.approx(0.1), "a step that waits for its data takes twice as long"
    assert efficiency(replace(forecast(), value=None))["mfu"] is None


@pytest.mark.parametrize(
    ("usd", "shown"), [(1170.4, "1,170"), (99.96, "100"), (0.01234, "0.0123"), (12345.6, "12,346")]
)
def test_dollars_have_digits_and_no_powers_of_ten(usd: float, shown: str) -> None:
    assert significant(usd) == shown


_FLOAT16 = [{"share": 1.0, "device": "mine", "dtypes": ["float16", "float32"]}]
_LOST = {"gpu_s": 0.04, "host_s": 0.03, "waits_s": 0.008, "varied_s": 0.002}
_OTHER_TYPE = {"host_rests_on": "processor", "processor": "AMD EPYC 7R13"}
_EAGER: dict[str, Any] = {
    "needed_bytes": 12 * GIB,
    "fits": True,
    "longer": -0.25,
    "launches": 1200.0,
}
_EAGER |= {"compiled_launches": 400.0, "graph_breaks": {"_local_scalar_dense": 2}}


@pytest.mark.parametrize(
    ("detail", "told"),
    [
        ({"is_unlike_judged": True}, "of unseen GPUs, n = 7; none such has been judged"),
        ({"eager": _EAGER}, "eager step, 400 launches for 1,200, 10.0 GiB for 12.0"),
        ({"eager": _EAGER}, "graph breaks: _local_scalar_dense × 2; those by Python are not"),
        ({"rests_on": "public", "timed_on": _FLOAT16}, "rests on public data of it in float16"),
        ({"past_devices": ["h100"]}, "past error 12 % of unseen networks, n = 7 on h100"),
        ({"own_traces": ["a.json"], "own_share": 0.8}, "rests on a.json (80 %) and its data"),
        ({}, "`stepcast import kineto TRACE --worker gpu.mine`"),
        ({"alone_s": 0.04}, "with the fastest public host 40 ms, with the slowest 60 ms"),
        ({"fits": False, "needed_bytes": 31 * GIB}, "31.0/24 no room"),
        ({"fits": False, "needed_bytes": 31 * GIB}, "does not fit: 31.0 GiB of 24.0, of which a"),
        ({"fits": False}, "a twentieth stays spare; a batch of about 4 does"),
        ({"fits": False}, "6.0 of activations (4.0 in all in"),
        ({"fits": False, "largest_batch_size": 0}, "a smaller one may"),
        ({}, "mm: 3 calls, 5 ms, 25 %"),
        ({}, "25.0 % of the GPU's time is of operators that nobody timed, 25.0 % of kinds"),
        (_LOST, "GPU 40 ms, host 30 ms, waits for values 8 ms, uneven launching 2 ms"),
        (_LOST | {"precision": "float16"}, "waits for loss scaling 8 ms"),
        ({}, "Host of gpu.mine: the middle one of public steps, which name no processor ("),
        (_OTHER_TYPE, "Host of gpu.mine (AMD EPYC 7R13): measured on another node type with"),
        ({"host_rests_on": "measured"}, "Host of gpu.mine: of this node type, measured by probe"),
    ],
)
def test_a_row_tells_what_it_rests_on_and_what_it_lacks(
    detail: dict[str, Any], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    of = forecast(**detail)
    load = of.scenario.workload.model_copy(
        update={"precision": detail.get("precision", "bfloat16")}
    )
    of = replace(of, scenario=of.scenario.model_copy(update={"workload": load}))
    assert told in " ".join(" ".join(lines(of, capsys, explain=True)).split())


def test_a_step_that_binds_no_public_host_names_none(capsys: pytest.CaptureFixture[str]) -> None:
    shown = lines(forecast(host_rests_on="measured", binds="gpu"), capsys)
    assert not any("public host" in line for line in shown)


def test_a_step_waits_for_its_data(capsys: pytest.CaptureFixture[str]) -> None:
    """Four samples at 50 a second take 80 ms."""
    slow = bounded_by_loader(forecast(), 50.0)
    assert (slow.value, slow.low, slow.high) == (0.08, 0.08, 0.08)
    assert slow.detail is not None and slow.detail["binds"] == "loader"
    assert any(line.endswith("loader") for line in lines(slow, capsys))
    fast = bounded_by_loader(forecast(), 1000.0)
    assert fast == forecast()
    nothing = replace(forecast(), value=None)
    assert bounded_by_loader(nothing, 50.0) == nothing


def test_gpus_that_train_together_say_how_they_scale(capsys: pytest.CaptureFixture[str]) -> None:
    eight_gpus = forecast(
        gpus=8, alone_s=0.04, exchange_s=0.02, straggling_share=0.06, scaling_percent=7.2,
        scaling_n=87, most_gpus_judged=4,
    )  # fmt: skip
    strategy = Strategy(kind="all_reduce", workers=2, devices_per_node=4)
    group = NodeGroup(role="worker", node_type="gpu.mine", count=2)
    scenario = eight_gpus.scenario.model_copy(update={"strategy": strategy, "nodes": (group,)})
    _, _, titles, _, row, *under = lines(replace(eight_gpus, scenario=scenario), capsys)
    assert titles.split()[:2] == ["nodes", "step"]
    assert row.split()[:4] == ["2", "×", "gpu.mine", "50"]
    assert "  a GPU alone 40 ms, the slowest of 8 6 % longer, exchanges 20 ms" in under
    assert "  scaling 80 %; past error 7 %, n = 87" in under
    assert "  more GPUs than scaling was judged of: 4" in under


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"batch_size": 10**7}, "  does not fit: "),
        ({"compiled": "default"}, "  compiled: "),
        ({}, "  past error "),
    ],
)
def test_all_that_the_fit_tells_is_shown(
    fields: dict[str, Any],
    told: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The details above are of those that a fit gives."""
    monkeypatch.setattr(scenario_steps, "gpu_steps", made_up_steps)
    detail = model().detail(scenario("gpu.t4", **{"batch_size": 8, **fields}))
    assert DETAIL.keys() <= detail.keys()
    shown = lines(replace(forecast(), detail=dict(detail)), capsys, explain=True)
    assert [line for line in shown if line.startswith(told)]
    assert [line for line in shown if line.startswith("  memory: ")]
