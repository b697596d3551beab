"""Write docs/questions.md: what analysts ask, the SQL, and what the history in this home answers.

Usage: STEPCAST_HOME=… python scripts/questions.py > docs/questions.md
"""

import re
import sys
from collections.abc import Mapping

import polars as pl

from warehouse.home import home
from warehouse.warehouse import QUERIES, Warehouse

QUESTIONS: list[tuple[str, Mapping[str, str | int]]] = [
    ("accuracy", {"study": "demo", "repeat": 1}),
    ("leaderboard", {}),
    ("scaling", {"study": "demo"}),
    ("underestimated", {"system": "async_sgd"}),
    ("top_operations", {"dnn": "small_cnn"}),
    ("link_sharing", {}),
    ("server_cpu", {"dnn": "googlenet"}),
    ("cheapest_node_type", {}),
    ("knee", {"dnn": "small_cnn"}),
    ("cost_per_million_examples", {"system": "async_sgd"}),
    ("history", {"metric": "throughput_steps_per_s", "dnn": "small_cnn"}),
    ("fit_inputs", {"system": "linear"}),
    ("price_history", {"node_type": "p3.2xlarge"}),
    ("cost_efficiency", {}),
    ("variance", {}),
    ("host_speed", {"system": "srift"}),
    ("changed", {"since": "2026-11-23"}),
    ("lacking", {}),
]
_MOST_ROWS = 8
_INTRO = """# Which questions does the history answer?

Eighteen questions, their SQL, and what one history answered. No Python is needed: open the
published copy with the `duckdb` shell, `duckdb -readonly .stepcast/history.duckdb`, and paste.
`stepcast query NAME --param name=value` runs the same files (warehouse/queries/), with parameters.
Every table, view and column says what it is:

```sql
SELECT table_name, column_name, comment FROM duckdb_columns() WHERE comment IS NOT NULL;
```

`raw` holds what was measured, `visible` the part of it that predictors may see, `fit` and `pred`
what they made of it, `report` the judgement, `catalog` what papers print, `meta` the file itself.
Views have a column `backend`: filter by it, so that emulated, real and imported measurements are
not mixed.

`scripts/questions.py` made the answers below on 2026-11-26; a home of another day has others.
"""


def main() -> None:
    """Print the page."""
    warehouse = Warehouse(home())
    sys.stdout.write(_INTRO)
    for number, (name, params) in enumerate(QUESTIONS, start=1):
        question, sql = _parts((QUERIES / f"{name}.sql").read_text())
        options = "".join(f" --param {key}={value}" for key, value in params.items())
        rows = warehouse.query(name, **params)
        sys.stdout.write(
            f"\n## {number}. {question}\n`stepcast query {name}{options}`\n\n"
            f"```sql\n{_with_values(sql, params)}\n```\n\n{_table(rows)}\n"
        )


def _parts(text: str) -> tuple[str, str]:
    """Return the question of a query's first line without its parameters, and the SQL."""
    first, *lines = text.splitlines()
    question = re.sub(
        r" \([^)]*\)| of \$\w+ or of all",
        "",
        first.removeprefix("-- ").replace(", of one metric", ""),
    )
    sql = "\n".join(line for line in lines if not line.startswith("--"))
    return re.sub(r",? or (of )?all\?|,\?", "?", question), sql.strip()


def _with_values(sql: str, params: Mapping[str, str | int]) -> str:
    """Put values, or NULL, in the place of parameters."""
    return re.sub(r"\$(\w+)", lambda found: _literal(params.get(found[1])), sql)


def _literal(value: str | int | None) -> str:
    if value is None:
        return "NULL"
    return f"'{value}'" if isinstance(value, str) else str(value)


def _table(rows: pl.DataFrame) -> str:
    shown = [[_cell(value) for value in row] for row in rows.head(_MOST_ROWS).rows()]
    lines = [rows.columns, ["---"] * rows.width, *shown]
    more = rows.height - len(shown)
    table = "\n".join("| " + " | ".join(line) + " |" for line in lines)
    return f"{table}\n\n({more} more rows)" if more > 0 else table


def _cell(value: object) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, float):
        return f"{value:.4g}"
    text = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
    return (text[:57] + "…" if len(text) > 58 else text).replace("|", "\\|")


if __name__ == "__main__":
    main()
