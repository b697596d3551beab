"""Whether a node type has become slower: a new probe `watch` against those before it.

A host is slow or fast as a whole from one start to the next, and from one moment to the next. So a
figure is compared relative to how slow the host was meanwhile, with probes of the same start; of a
new start the first probes are also compared with all starts before, as far as these agree.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import copysign, exp
from typing import Literal

import polars as pl

from fleet.baseline import Baseline
from fleet.readings import METRICS
from warehouse.records import BadInput

Verdict = Literal["too_few", "same", "slower", "faster"]


@dataclass(frozen=True)
class Thresholds:
    """When a difference is an alarm: both beyond chance, and large enough to matter.

    Attributes:
        z: standard deviations.
        confirm_z: of a second probe, which is only asked because of an alarm.
        change: part of the figure (0.04: 4 %).
        least_probes: so many before, or nothing is said.
        speed_ups: whether becoming faster is an alarm too.
    """

    z: float = 3.0
    confirm_z: float = 2.5
    change: float = 0.04
    least_probes: int = 5
    speed_ups: bool = False

    def __post_init__(self) -> None:
        """Refuse what no probe could meet, or every one.

        Raises:
            BadInput: naming the field.
        """
        positive = {"z": self.z, "confirm_z": self.confirm_z, "change": self.change}
        for name, value in positive.items():
            if not value > 0:
                raise BadInput(f"thresholds: {name} should be above 0, found {value:g}")
        if self.least_probes < 2:
            raise BadInput(
                f"thresholds: least_probes should be 2 or more, found {self.least_probes}: one "
                "probe does not tell how far probes scatter"
            )


@dataclass(frozen=True)
class Judgement:
    """What a probe says of one metric.

    Attributes:
        run_id: the probe.
        metric: as it has landed.
        value: of the probe.
        expected: of a probe at this moment, as fast as the host is now; None: too few probes.
        change: of the value, as part of what was expected: −0.1 of a speed is a tenth slower.
        z: standard deviations that it is slower than expected; below 0: faster.
        probes: earlier ones that it was compared with.
        verdict: too_few, same, slower or faster.
        alarm: whether a second probe should confirm it.
    """

    run_id: str
    metric: str
    value: float
    expected: float | None
    change: float | None
    z: float | None
    probes: int
    verdict: Verdict
    alarm: bool


def judge(
    history: pl.DataFrame, fresh: pl.DataFrame, thresholds: Thresholds
) -> tuple[Judgement, ...]:
    """Judge a probe by those before it.

    Args:
        history: `readings` of earlier probes of one node type on one backend and host, on links of
            one speed. A Boolean column `alarmed` tells which of them raised an alarm: these are
            left out, or what is slow would soon be what is expected. After a confirmed shift and a
            full profile, history begins with that.
        fresh: `readings` of the probe.
        thresholds: when it is an alarm.

    Returns:
        One for each metric that the probe has.

    Raises:
        BadInput: `fresh` has no reading, or those of several runs.
    """
    if fresh["run_id"].n_unique() != 1:
        raise BadInput(f"expected the readings of one probe, found {fresh['run_id'].n_unique()}")
    if "alarmed" in history.columns:
        history = history.filter(~pl.col("alarmed"))
    earlier = {metric: rows for (metric,), rows in _comparable(history, fresh).group_by("metric")}
    boot = fresh["boot"][0]
    return tuple(
        _judged(earlier.get(reading.metric, history.clear()), reading, boot, thresholds)
        for reading in _rows(fresh)
    )


def confirmed(
    first: Sequence[Judgement], second: Sequence[Judgement], thresholds: Thresholds
) -> tuple[str, ...]:
    """Return the metrics of which a second, fresh probe says the same as the first one's alarms."""
    alarms = {one.metric: one.z for one in first if one.alarm and one.z is not None}
    return tuple(
        one.metric
        for one in second
        if one.z is not None
        and one.change is not None
        and one.metric in alarms
        and copysign(one.z, alarms[one.metric]) == one.z
        and abs(one.z) >= thresholds.confirm_z
        and abs(one.change) >= thresholds.change
    )


def _comparable(history: pl.DataFrame, fresh: pl.DataFrame) -> pl.DataFrame:
    """Return earlier readings of the same metrics, whose hosts were timed in the same way."""
    unknown = pl.col("host").is_null().alias("unknown")
    key = ["metric", "paced", "unknown"]
    return history.with_columns(unknown).join(
        fresh.select("metric", "paced", unknown), on=key, how="semi", maintain_order="left"
    )


@dataclass(frozen=True)
class _Reading:
    run_id: str
    metric: str
    value: float
    slowness: float
    host: float | None
    noise: float


def _rows(fresh: pl.DataFrame) -> Iterator[_Reading]:
    columns = ("run_id", "metric", "value", "slowness", "host", "noise")
    for row in fresh.select(columns).iter_rows():
        yield _Reading(*row)


def _judged(
    earlier: pl.DataFrame, reading: _Reading, boot: str, thresholds: Thresholds
) -> Judgement:
    run_id, metric, value = reading.run_id, reading.metric, reading.value
    if earlier.height < thresholds.least_probes:
        return Judgement(run_id, metric, value, None, None, None, earlier.height, "too_few", False)
    watched = METRICS[metric]
    baseline = Baseline.of(earlier, boot, watched)
    host = reading.host or 0.0
    slower = reading.slowness - baseline.expected(host)
    z = slower / baseline.deviation(host, reading.noise)
    expected = value * exp(-slower if watched.more_is_slower else slower)
    change = value / expected - 1
    verdict: Verdict = "same"
    if abs(z) >= thresholds.z and abs(change) >= thresholds.change:
        verdict = "slower" if z > 0 else "faster"
    alarm = verdict == "slower" or (verdict == "faster" and thresholds.speed_ups)
    return Judgement(run_id, metric, value, expected, change, z, baseline.probes, verdict, alarm)
