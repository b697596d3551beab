"""Do errors of the nearest judged scenarios tell how wrong a forecast is? And far out?

`python -m benchmarks.near` asks the history of $STEPCAST_HOME, such as the one of `make accuracy`.
Each judged scenario is left out in turn, with all that was measured of it.
"""

from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean

import polars as pl

from forecasting.asked.coordinates import NUMBERS
from forecasting.asked.near import NEAREST, Judged, Neighbour, by_distance
from warehouse.home import home
from warehouse.warehouse import Warehouse

LEAST = 10
"""Systems with fewer judged scenarios are left out."""
Estimates = Mapping[str, float]


def estimates(one: Neighbour, all_of_system: Sequence[Neighbour]) -> Estimates | None:
    """Return what is expected of a scenario's error, percent, by way; None if one cannot tell.

    Args:
        one: that is left out.
        all_of_system: the judged scenarios of a system and metric.
    """
    others = [other for other in all_of_system if other.scenario_id != one.scenario_id]
    like = [other for other in others if other.split == one.split]
    if not like:
        return None
    near = by_distance(one.at, others, one.split)[:NEAREST]
    nearest, at_split = _mean([each.neighbour for each in near]), _mean(like)
    return {
        "nearest": nearest,
        "split": at_split,
        "both": (nearest + at_split) / 2,
        "all": _mean(others),
    }


def checked(judged: Judged) -> pl.DataFrame:
    """Return, for each system, how well ways to expect errors do.

    Columns: system, n, mean size of errors (percent), and for each way the rank correlation of what
    is expected with the errors (Spearman), and the mean size of the difference (percent points).
    """
    return pl.DataFrame(list(_checked(judged)))


def _checked(judged: Judged) -> Iterator[dict[str, str | int | float]]:
    for (system, _), ours in sorted(judged.of.items()):
        told = [(one.size, found) for one in ours if (found := estimates(one, ours)) is not None]
        if len(told) < LEAST:
            continue
        rows = pl.DataFrame([{"size": size, **found} for size, found in told])
        result: dict[str, str | int | float] = {
            "system": system,
            "n": rows.height,
            "mape": fmean(rows["size"]),
        }
        for way in ("nearest", "split", "both", "all"):
            rank = rows.select(pl.corr("size", way, method="spearman")).item()
            result[f"{way}_rank"] = rank
            result[f"{way}_off"] = fmean((rows["size"] - rows[way]).abs())
        yield result


def ends(judged: Judged) -> pl.DataFrame:
    """Return how wrong forecasts were at the ends of each coordinate, and between them.

    An end is one gap beyond the other judged values, as far out as forecasts are given. Columns:
    system, coordinate, its end (value), n and error there, n and error elsewhere (percent).
    """
    return pl.DataFrame(list(_ends(judged)), orient="row")


def _ends(judged: Judged) -> Iterator[dict[str, str | int | float]]:
    for (system, _), ours in sorted(judged.of.items()):
        for name in NUMBERS:
            known = [one for one in ours if name in one.at.numbers]
            values = {one.at.numbers[name] for one in known}
            if len(values) < 3:
                continue
            end = max(values)
            at_end = [one for one in known if one.at.numbers[name] == end]
            rest = [one for one in known if one.at.numbers[name] < end]
            yield {
                "system": system,
                "coordinate": name,
                "end": end,
                "n": len(at_end),
                "error": _mean(at_end),
                "elsewhere_n": len(rest),
                "elsewhere": _mean(rest),
            }


def _mean(some: Sequence[Neighbour]) -> float:
    return fmean(one.size for one in some)


def main() -> None:
    """Print both tables."""
    judged = Judged.read(Warehouse(home()), "emulated")
    with pl.Config(tbl_rows=100, tbl_cols=20, tbl_width_chars=160, float_precision=2):
        print(checked(judged))  # noqa: T201
        print(ends(judged))  # noqa: T201


if __name__ == "__main__":
    main()
