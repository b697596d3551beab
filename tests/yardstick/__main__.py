"""`python -m tests.yardstick needs | predictions`: compare, or with --write make the yardstick.

`python -m tests.yardstick accuracy` compares accuracy.md of the home with docs/accuracy.md, row by
row, of the studies that the home has; with --write it becomes that page.
"""

import argparse
import json
import re
import sys
from pathlib import Path

import polars as pl

from reports import accuracy_page
from tests.reports.pages import rows_of
from tests.yardstick import predictions
from tests.yardstick.needs import NEEDS, needs
from warehouse.home import CHECKOUT, home

ACCURACY = CHECKOUT / "docs" / "accuracy.md"
_FIGURE = re.compile(r"(\d+\.\d)")
_SECONDS = re.compile(r"\d+\.\d s\b")
PREDICTIONS = Path(__file__).with_name("predictions.csv")


def main() -> int:
    """Compare what the command line names with the yardstick; return 1 if it differs."""
    parser = argparse.ArgumentParser(prog="python -m tests.yardstick", description=__doc__)
    parser.add_argument("what", choices=["needs", "predictions", "accuracy"])
    parser.add_argument("--write", action="store_true", help="make the yardstick anew")
    parser.add_argument(
        "--tolerance", type=float, default=1e-9, help="by which figures may differ, as a share"
    )
    arguments = parser.parse_args()
    if arguments.what == "needs":
        actual = needs()
        if arguments.write:
            NEEDS.write_text(json.dumps(actual, indent=1) + "\n")
        lines = [
            f"{name}: {how} {start}"
            for name, before, now in _by_name(json.loads(NEEDS.read_text()), actual)
            for how, starts in (("gone", before - now), ("new", now - before))
            for start in sorted(starts)
        ]
        compared = f"{sum(map(len, actual.values()))} starts of {len(actual)} rounds"
    elif arguments.what == "accuracy":
        text = (home() / accuracy_page.FILE).read_text()
        if arguments.write:
            ACCURACY.write_text(text)
        then, now = map(rows_of, (ACCURACY.read_text(), text))
        lines = [
            f"{', '.join(key)}: {', '.join(now[key])}, where the page has {', '.join(row)}"
            for key, row in ((key, then.get(key, ["no such row"])) for key in now)
            if not _alike(row, now[key])
        ]
        compared = f"{len(now)} rows of {home() / accuracy_page.FILE}"
    else:
        rows = predictions.predictions(home())
        if arguments.write:
            predictions.write(rows, PREDICTIONS)
        in_home = pl.col("study").is_in(rows["study"].unique().to_list())
        before = predictions.read(PREDICTIONS).filter(in_home)
        lines = list(predictions.differences(before, rows, arguments.tolerance))
        compared = f"{rows.height} forecasts of {rows['study'].n_unique()} studies in {home()}"
    sys.stdout.writelines(f"{line}\n" for line in lines)
    sys.stdout.write(f"{compared}: {len(lines) or 'no'} differences\n")
    return 1 if lines else 0


def _alike(then: list[str], now: list[str]) -> bool:
    """Return whether cells are equal but for seconds; figures may differ as processors do.

    That is by their last digit, or by a fiftieth: of what is fitted in steps, the last one differs.
    """
    before, after = (
        [part for cell in cells for part in _FIGURE.split(_SECONDS.sub("", cell))]
        for cells in (then, now)
    )
    return len(before) == len(after) and all(
        old == new
        or (
            _FIGURE.fullmatch(old) is not None
            and _FIGURE.fullmatch(new) is not None
            and abs(float(old) - float(new)) < max(0.15, 0.02 * float(old))
        )
        for old, new in zip(before, after, strict=True)
    )


def _by_name(
    then: dict[str, list[str]], now: dict[str, list[str]]
) -> list[tuple[str, set[str], set[str]]]:
    names = sorted({*then, *now})
    return [(name, set(then.get(name, ())), set(now.get(name, ()))) for name in names]


if __name__ == "__main__":
    sys.exit(main())
