"""Rows of single GPUs, and steps that wait for their data."""

from dataclasses import replace
from typing import Any, cast

import pytest

from forecasting.costs import Cost
from forecasting.forecast import ScenarioForecast
from forecasting.nearest import NearestCases
from models.gpu_step.system import GPU_STEP
from pipelines.cli.device_answer import bounded_by_loader, efficiency, print_devices
from pipelines.cli.tables import significant
from profilers.probe import STEP_TIME
from tests.models.gpu_step.public import scenario
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
        case=cast(NearestCases, None),
        is_new=True,
        cost=Cost(3.6, ()),
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


def test_a_step_unlike_those_that_were_judged_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    shown = lines(forecast(is_unlike_judged=True), capsys)
    assert "  past error 12 % of unseen GPUs, n = 7; none such has been judged" in shown


def test_a_compiled_row_says_what_that_buys(capsys: pytest.CaptureFixture[str]) -> None:
    eager: dict[str, Any] = {
        "needed_bytes": 12 * GIB,
        "fits": True,
        "longer": -0.25,
        "launches": 1200.0,
    }
    eager |= {"compiled_launches": 400.0, "graph_breaks": {"_local_scalar_dense": 2}}
    shown = " ".join(line.strip() for line in lines(forecast(eager=eager), capsys))
    assert "-25 % time of an eager step, 400 launches for 1,200, 10.0 GiB for 12.0" in shown
    assert "graph breaks: _local_scalar_dense × 2; those by Python are not looked at" in shown


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


def test_a_row_names_the_precision_and_the_board_that_stand_in(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The step is in bfloat16: what was timed in float16 alone says so."""
    timed_on = [{"share": 1.0, "device": "mine", "dtypes": ["float16", "float32"]}]
    shown = lines(forecast(rests_on="public", timed_on=timed_on, past_devices=["h100"]), capsys)
    assert "  rests on public data of it in float16" in shown
    assert "  past error 12 % of unseen networks, n = 7 on h100" in shown
    traced = lines(forecast(own_traces=["your trace a.json"], own_share=0.8), capsys)
    assert any(
        line.startswith("  rests on your trace a.json (80 %) and its data") for line in traced
    )
    assert "To have a step of yours count: `stepcast import kineto TRACE --worker gpu.mine`." in (
        traced
    )
    measured = lines(forecast(host_rests_on="measured", binds="gpu"), capsys)
    assert not any("public host" in line for line in measured)
    by_host = lines(forecast(binds="host", alone_s=0.04, host_s=0.04), capsys)
    assert "  with the fastest public host 40 ms, with the slowest 60 ms" in by_host


def test_what_does_not_fit_says_what_does(capsys: pytest.CaptureFixture[str]) -> None:
    shown = lines(forecast(fits=False, needed_bytes=31 * GIB), capsys)
    assert any(line.endswith("31.0/24  no room") for line in shown)
    assert (
        "  does not fit: 31.0 GiB of 24.0, of which a twentieth stays spare; a batch of about 4 "
        "does"
    ) in shown
    assert any("6.0 of activations (4.0 in all in" in line for line in shown)
    none = lines(forecast(fits=False, largest_batch_size=0), capsys)
    assert any(line.endswith("a smaller one may") for line in none)


def test_details_name_the_costliest_operators(capsys: pytest.CaptureFixture[str]) -> None:
    shown = lines(forecast(), capsys, explain=True)
    assert "  mm: 3 calls, 5 ms, 25 %" in shown
    assert any(
        "25.0 % of the GPU's time is of operators that nobody timed, 25.0 % of kinds" in line
        for line in shown
    )


def test_what_a_step_loses_beside_gpu_and_host_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    lost = forecast(gpu_s=0.04, host_s=0.03, waits_s=0.008, varied_s=0.002)
    words = "GPU 40 ms, host 30 ms, waits for values 8 ms, uneven launching 2 ms"
    assert any(words in line for line in lines(lost, capsys))
    load = lost.scenario.workload.model_copy(update={"precision": "float16"})
    half = replace(lost, scenario=lost.scenario.model_copy(update={"workload": load}))
    assert any("waits for loss scaling 8 ms" in line for line in lines(half, capsys))


def test_it_says_whose_host_issues_steps(capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        "Host of gpu.mine: the middle one of public steps, which name no processor "
        "(probe inventory measures yours)."
    ) in lines(forecast(), capsys)
    alike = lines(forecast(host_rests_on="processor", processor="AMD EPYC 7R13"), capsys)
    assert (
        "Host of gpu.mine (AMD EPYC 7R13): measured on another node type with this processor."
        in alike
    )
    measured = lines(forecast(host_rests_on="measured"), capsys)
    assert (
        "Host of gpu.mine: of this node type, measured by probe inventory or a trace." in measured
    )


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
    fields: dict[str, Any], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The details above are of those that a fit gives."""
    detail = model().detail(scenario("gpu.t4", **{"batch_size": 8, **fields}))
    assert DETAIL.keys() <= detail.keys()
    shown = lines(replace(forecast(), detail=dict(detail)), capsys, explain=True)
    assert [line for line in shown if line.startswith(told)]
    assert [line for line in shown if line.startswith("  memory: ")]
