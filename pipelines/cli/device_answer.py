"""What `stepcast predict` prints of GPUs: a row for each choice of nodes, and what it rests on."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from importlib.metadata import PackageNotFoundError, version
from itertools import groupby
from typing import Any

from forecasting.costs import examples_per_step
from forecasting.forecast import ScenarioForecast
from forecasting.standing import standing
from models.gpu_step.operators import HALF
from pipelines.cli.tables import (
    columns_of_terminal,
    duration,
    duration_unit,
    print_text,
    significant,
    table_lines,
)
from profilers.clusters.node_types import gpus
from profilers.probe import STEP_TIME
from studies.messages import count

_GIB = 2**30
_RESTS_ON = {"public": "public data", "data sheet": "its data sheet and public data"}
_HOSTS = {
    "measured": "of this node type, measured by probe inventory or a trace",
    "processor": "measured on another node type with this processor",
    "public": "the middle one of public steps, which name no processor "
    "(probe inventory measures yours)",
}
_SAMPLES = 1_000_000
"""Of which the cost is shown where no epoch is told."""
_NAMED = 2
"""GPUs that a row names of those on which like operators were timed."""
_TOLD = 0.005
"""Share of a step above which what is lost is told."""


def bounded_by_loader(forecast: ScenarioForecast, loader_samples_per_s: float) -> ScenarioForecast:
    """Return a forecast of a step that waits for its data where these come more slowly.

    Args:
        forecast: of whichever training.
        loader_samples_per_s: that all devices together are given.
    """
    if forecast.metric != STEP_TIME or forecast.value is None:
        return forecast
    least_s = examples_per_step(forecast.scenario) / loader_samples_per_s
    binds = {"binds": "loader"} if forecast.value < least_s else {}
    return replace(
        forecast,
        value=max(forecast.value, least_s),
        low=None if forecast.low is None else max(forecast.low, least_s),
        high=None if forecast.high is None else max(forecast.high, least_s),
        detail=None if forecast.detail is None else {**forecast.detail, **binds},
    )


def efficiency(forecast: ScenarioForecast) -> dict[str, float | None]:
    """Return by what answers are held against published figures, None where it is not known.

    `usd_per_million_tokens`; `tflop_per_s` of a GPU, of the matrix products that a step needs; and
    `mfu`, that over the peak of the board in the precision of the scenario: the model FLOP
    utilisation (Chowdhery et al., PaLM, appendix B, with FLOPs counted by operator).
    """
    scenario, detail, per_s = forecast.scenario, forecast.detail, forecast.samples_per_s
    if not per_s or detail is None:
        return {"usd_per_million_tokens": None, "tflop_per_s": None, "mfu": None}
    flops_per_s = detail["product_flops"] * per_s / examples_per_step(scenario)
    words, usd = scenario.workload.sequence_length, forecast.usd_per_million_samples
    return {
        "usd_per_million_tokens": usd / words if usd is not None and words else None,
        "tflop_per_s": flops_per_s / 1e12,
        "mfu": flops_per_s / detail["peak_flops_per_s"],
    }


def print_devices(
    forecasts: Sequence[ScenarioForecast], dataset_samples: int | None, *, explain: bool
) -> None:
    """Print forecasts that tell what binds: a table for each workload, a row for each node type.

    Args:
        forecasts: with a detail each.
        dataset_samples: of an epoch; None: costs are of a million samples.
        explain: whether the costliest operators follow, and what nobody timed.
    """
    for name, some in groupby(forecasts, _workload):
        print_text("")
        print_text(name)
        _print_table(list(some), dataset_samples)
    if explain:
        for forecast in forecasts:
            print_text(*_explained(forecast))
    print_text(*_hosts(forecasts))
    print_text(f"To have a step of yours count: `{standing(forecasts[0]).measure_command}`.")
    traced = ""
    with suppress(PackageNotFoundError):
        traced = f"Operators are those of PyTorch {version('torch')}. "
    print_text(f"{traced}Quota and availability are not checked.")


def _print_table(forecasts: Sequence[ScenarioForecast], dataset_samples: int | None) -> None:
    """Print a table, and under each of its rows what it rests on, and what waits for what."""
    several = len({forecast.system.name for forecast in forecasts}) > 1
    exchanging = any(_detail(forecast)["gpus"] > 1 for forecast in forecasts)
    nodes = "nodes" if exchanging else "node type"
    rows = [
        {
            nodes: _nodes(forecast),
            **({"system": forecast.system.name} if several else {}),
            **_cells(forecast, _detail(forecast), dataset_samples),
        }
        for forecast in forecasts
    ]
    under = [list(_under(forecast, _detail(forecast))) for forecast in forecasts]
    numbers = rows[0].keys() - {nodes, "system", "binds"}
    print_text(*table_lines(rows, columns_of_terminal(), numbers, under=under))


def _cells(
    forecast: ScenarioForecast, detail: Mapping[str, Any], dataset_samples: int | None
) -> dict[str, str]:
    """Return a row behind its node type."""
    low, high, per_s, usd = forecast.low, forecast.high, forecast.samples_per_s, "-"
    assert forecast.value is not None
    samples = dataset_samples or _SAMPLES
    if per_s and forecast.usd_per_hour:
        usd = significant(forecast.usd_per_hour * samples / per_s / 3600)
    epoch = (
        {} if dataset_samples is None else {"epoch": duration(samples / per_s) if per_s else "-"}
    )
    return {
        "step": duration(forecast.value),
        "90 % in": "-" if low is None or high is None else _span(low, high, forecast.value),
        "samples/s": "-" if per_s is None else significant(per_s),
        **epoch,
        "$/epoch" if epoch else "$/10⁶": usd,
        "GiB": f"{detail['needed_bytes'] / _GIB:.1f}/{detail['memory_bytes'] / _GIB:.0f}",
        "binds": str(detail["binds"]).replace("gpu", "GPU") if detail["fits"] else "no room",
    }


def _under(forecast: ScenarioForecast, detail: Mapping[str, Any]) -> Iterator[str]:
    """Yield on what a row rests and how wrong that has been; what waits, and what does not fit."""
    percent, n, on = (detail[f"past_{name}"] for name in ("error_percent", "n", "devices"))
    unseen = f"networks, n = {n} on {', '.join(on)}" if on else f"GPUs, n = {n}"
    where = _timed_on(forecast.scenario.workload.precision, detail)
    own = ", ".join(detail["own_traces"]) if detail["own_share"] > _TOLD else ""
    own += f" ({100 * detail['own_share']:.0f} %) and " * bool(own)
    yield f"rests on {own}{_RESTS_ON[detail['rests_on']]} of {where}"
    other = "; none such has been judged" if detail.get("is_unlike_judged") else ""
    past = "never judged" if percent is None else f"past error {percent:.0f} % of unseen {unseen}"
    yield past if percent is None else f"{past}{other}"
    if not detail["fits"]:
        yield (
            f"does not fit: {detail['needed_bytes'] / _GIB:.1f} GiB of "
            f"{detail['memory_bytes'] / _GIB:.1f}, of which a twentieth stays spare; "
            + forecast.fitting_batch
        )
        yield _memory(detail)
    if (kept := detail.get("kept")) is not None:
        room = "" if kept["fits"] else ", no room"
        yield (
            f"computing activations again: {detail['needed_bytes'] / _GIB:.1f} GiB for "
            f"{kept['needed_bytes'] / _GIB:.1f}{room}, {100 * kept['longer']:+.0f} % time"
        )
    if (eager := detail.get("eager")) is not None:
        yield (
            f"compiled: {100 * eager['longer']:+.0f} % time of an eager step, "
            f"{eager['compiled_launches']:,.0f} launches for {eager['launches']:,.0f}, "
            f"{detail['needed_bytes'] / _GIB:.1f} GiB for {eager['needed_bytes'] / _GIB:.1f}"
        )
        breaks = ", ".join(f"{name} × {n}" for name, n in eager["graph_breaks"].items())
        yield f"graph breaks: {breaks or 'none by an operator'}; those by Python are not looked at"
    used_gpus, node_gpus = (
        forecast.scenario.strategy.devices_per_node,
        gpus(forecast.scenario.nodes[0].node_type),
    )
    if used_gpus < node_gpus:
        yield f"trains on {used_gpus} of {node_gpus} GPUs; the price is of all"
    yield ", ".join(_against_published(forecast))
    words = [", ".join(_parts(forecast.scenario.workload.precision, detail))]
    if detail["binds"] == "host" and detail["fits"] and (free := detail["free_batch_size"]):
        words.append(f"batches are free at least until {free}")
    yield "; ".join(words)
    if detail["binds"] == "host" and detail["host_rests_on"] == "public":
        fast, slow = (detail["alone_s"] * detail[f"{name}_host"] for name in ("fastest", "slowest"))
        yield f"with the fastest public host {duration(fast)}, with the slowest {duration(slow)}"
    if detail["exchange_s"]:
        percent, n = detail["scaling_percent"], detail["scaling_n"]
        past = "never judged" if percent is None else f"past error {percent:.0f} %, n = {n}"
        yield (
            f"a GPU alone {duration(detail['alone_s'])}, the slowest of {detail['gpus']} "
            f"{100 * detail['straggling_share']:.0f} % longer, "
            f"exchanges {duration(detail['exchange_s'])}"
            + ("" if (mbps := forecast.scenario.link_mbps) is None else f" at {mbps / 1000:g} Gb/s")
        )
        if forecast.scenario.strategy.is_divided:
            yield (
                f"stages idle {duration(detail['bubble_s'])}; of the exchanges "
                f"{duration(detail['tensor_s'])} among tensor ranks and "
                f"{duration(detail['transfer_s'])} between stages have nothing beside them"
            )
        yield f"scaling {100 * detail['alone_s'] / detail['step_s']:.0f} %; {past}"
        if own := ", ".join(detail["own_clusters"]):
            yield f"exchanges rest on {own}"
        if detail["gpus"] > detail["most_gpus_judged"]:
            yield f"more GPUs than scaling was judged of: {detail['most_gpus_judged']}"


def _memory(detail: Mapping[str, Any]) -> str:
    """Return of what the memory of a step consists."""
    parts = {name: size_bytes / _GIB for name, size_bytes in detail["memory_parts"].items()}
    return (
        f"memory: {parts['standing_bytes']:.1f} GiB of parameters, gradients and state, "
        f"{parts['activation_bytes']:.1f} of activations ({parts['optimizer_bytes']:.1f} in all in "
        f"the optimizer's step); nvidia-smi shows {parts['on_top_bytes']:.1f} more: context, cache"
    )


def _against_published(forecast: ScenarioForecast) -> Iterator[str]:
    """Yield figures by which people compare: tokens, dollars, and how far the GPU is used."""
    of, words = efficiency(forecast), forecast.scenario.workload.sequence_length
    per_s = forecast.samples_per_s
    if words and per_s:
        yield f"{significant(per_s * words)} tokens/s"
    usd, unit = of["usd_per_million_tokens"], "tokens"
    if usd is None:
        usd, unit = forecast.usd_per_million_samples, "samples"
    if usd is not None:
        yield f"${significant(usd)}/10⁶ {unit}"
    if of["tflop_per_s"] is not None and of["mfu"] is not None:
        yield f"{significant(of['tflop_per_s'])} TFLOP/s a GPU, MFU {100 * of['mfu']:.2g} %"


def _timed_on(precision: str, detail: Mapping[str, Any]) -> str:
    """Return on which GPUs operators were timed like those of a step, and for which part of it."""
    told = [each for each in detail["timed_on"] if each["share"] >= _TOLD]
    gpus = [_timed_part(each, precision, detail) for each in told if each["device"] is not None]
    words = ", ".join(gpus[:_NAMED])
    if len(gpus) > _NAMED:
        words += f" and {len(gpus) - _NAMED} more"
    nobody = [each["share"] for each in told if each["device"] is None]
    return f"{words}, of nobody in that precision ({100 * nobody[0]:.0f} %)" if nobody else words


def _timed_part(each: Mapping[str, Any], precision: str, detail: Mapping[str, Any]) -> str:
    name = "it" if each["device"] == detail["device"] else each["device"]
    half = [dtype for dtype in each["dtypes"] if dtype in HALF]
    if half and precision not in half:
        name += f" in {' and '.join(half)}"
    return name if each["share"] > 1 - _TOLD else f"{name} ({100 * each['share']:.0f} %)"


def _parts(precision: str, detail: Mapping[str, Any]) -> Iterator[str]:
    """Yield what a GPU's step consists of: the larger of two, and what is lost beside."""
    yield f"GPU {duration(detail['gpu_s'])}"
    yield f"host {duration(detail['host_s'])}"
    for name, words in (
        ("waits_s", f"waits for {'loss scaling' if precision == 'float16' else 'values'}"),
        ("varied_s", "uneven launching"),
    ):
        if detail[name] > _TOLD * detail["alone_s"]:
            yield f"{words} {duration(detail[name])}"


def _hosts(forecasts: Sequence[ScenarioForecast]) -> Iterator[str]:
    """Yield whose host issues the steps."""
    for rests, words in _HOSTS.items():
        types: dict[str, None] = {}
        for forecast in forecasts:
            detail, name = _detail(forecast), forecast.scenario.nodes[0].node_type
            if detail["host_rests_on"] == rests:
                processor = detail.get("processor")
                types[name if processor is None else f"{name} ({processor})"] = None
        if types:
            yield f"Host of {', '.join(types)}: {words}."


def _explained(forecast: ScenarioForecast) -> Iterator[str]:
    """Yield the costliest operators of a step, and how much of it nobody has timed."""
    detail = _detail(forecast)
    yield ""
    yield f"{forecast.scenario.label}:"
    here = sum(each["share"] for each in detail["timed_on"] if each["device"] == detail["device"])
    yield (
        f"  {100 * detail['unknown_share']:.1f} % of the GPU's time is of operators that nobody "
        f"timed, {100 * here:.1f} % of kinds that were timed on it in that precision; "
        f"the {'GPU' if detail['binds'] == 'host' else 'host'} idles "
        f"{100 * detail['idle_share']:.0f} % of a step; data sheet: {detail['data_sheet']}"
    )
    yield f"  {_memory(detail)}"
    for operator in detail["costliest"]:
        part = 100 * operator["gpu_s"] / detail["gpu_s"] if detail["gpu_s"] else 0.0
        yield (
            f"  {operator['operator']}: {count(operator['calls'], 'call')}, "
            f"{duration(operator['gpu_s'])}, {part:.0f} %"
        )


def _detail(forecast: ScenarioForecast) -> Mapping[str, Any]:
    assert forecast.detail is not None
    return forecast.detail


def _workload(forecast: ScenarioForecast) -> str:
    """Return what a table is about: rows tell nodes, so replicas and single devices share one."""
    strategy = forecast.scenario.strategy
    kind = strategy.kind if strategy.kind not in ("all_reduce", "single") else ""
    words = forecast.scenario.workload.label, kind, strategy.layout, forecast.scenario.what_if
    return ", ".join(filter(None, words))


def _nodes(forecast: ScenarioForecast) -> str:
    """Return how many nodes of which type, and of how many GPUs where that is not all of one."""
    strategy, name = forecast.scenario.strategy, forecast.scenario.nodes[0].node_type
    return name if strategy.workers == 1 else f"{strategy.workers} × {name}"


def _span(low: float, high: float, value: float) -> str:
    """Return an interval in the unit of its value."""
    unit_s, _ = duration_unit(value)
    return "–".join(
        f"{end:.0f}" if end >= 100 else f"{end:.3g}" for end in (low / unit_s, high / unit_s)
    )
