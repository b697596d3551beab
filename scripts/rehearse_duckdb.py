"""Rehearse a move to another DuckDB: does a history give the same rows, and is there a way back?

    python scripts/rehearse_duckdb.py .stepcast/history.duckdb /tmp/newer/bin/python

The second argument is a Python that has the other DuckDB (`python -m venv /tmp/newer`, then pip).
The history is copied first and never opened itself. Each query of warehouse/queries, with each
parameter NULL, and each view of the history is read by both; so are the copy after the newer one
has written to it, a copy in the newer one's own format, and one that it has written back.
"""

import argparse
import hashlib
import json
import math
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

QUERIES = Path(__file__).parents[1] / "warehouse" / "queries"
VIEWS = (
    "SELECT schema_name, view_name FROM duckdb_views() "
    "WHERE NOT internal AND database_name = current_database() ORDER BY ALL"
)


def read_all(file: str) -> dict[str, str]:
    """Return a digest of the rows of each query and view of a history, or why there is none."""
    connection = opened(file)
    return {name: digest(connection, text) for name, text in statements(connection).items()}


def read_rows(file: str, name: str) -> list:
    """Return the rows of a query or view, in an order that does not depend on how they came."""
    connection = opened(file)
    rows = plain(answer(connection, statements(connection)[name]))
    return sorted(rows, key=lambda row: repr([shortened(value) for value in row]))


def opened(file: str):
    """Return a connection that reads a history, with times in UTC."""
    import duckdb

    connection = duckdb.connect(file, read_only=True, config={"threads": 1})
    connection.execute("SET TimeZone = 'UTC'")
    return connection


def statements(connection) -> dict[str, str]:
    """Return the text of each query, and of what reads each view."""
    texts = {path.stem: path.read_text() for path in sorted(QUERIES.glob("*.sql"))}
    for schema, view in connection.execute(VIEWS).fetchall():
        texts[f"{schema}.{view}"] = f'FROM "{schema}"."{view}"'
    return texts


def answer(connection, text: str) -> list:
    """Return the rows of a statement with each parameter NULL."""
    code = re.sub(r"--[^\n]*", "", text)
    parameters = dict.fromkeys(re.findall(r"\$([a-z]\w*)", code))
    return connection.execute(text, parameters or None).fetchall()


def digest(connection, text: str) -> str:
    """Return how many rows a statement has and their hash, or what it fails with."""
    try:
        rows = answer(connection, text)
    except Exception as error:
        return f"{type(error).__name__}: {str(error).splitlines()[0]}"
    lines = sorted(repr([shortened(value) for value in plain(row)]) for row in rows)
    return f"{len(rows)} rows, {hashlib.sha256(chr(10).join(lines).encode()).hexdigest()[:16]}"


def plain(value):
    """Return a value as JSON has it: zones of times are of other classes in other releases."""
    if isinstance(value, dict):
        return [[key, plain(item)] for key, item in value.items()]
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value if isinstance(value, int | float | str | None) else str(value)


def shortened(value):
    """Return a value with ten digits of each real."""
    if isinstance(value, list):
        return [shortened(item) for item in value]
    return f"{value:.10g}" if isinstance(value, float) else value


def touch(file: str) -> dict[str, str]:
    """Write a row to a history, and take it back."""
    import duckdb

    with duckdb.connect(file) as connection:
        connection.execute("CREATE TABLE rehearsal AS SELECT 1 AS number")
        connection.execute("CHECKPOINT")
        connection.execute("DROP TABLE rehearsal")
        connection.execute("CHECKPOINT")
    return {"version": duckdb.__version__}


def rewrite(file: str, target: str, storage: str) -> dict[str, str]:
    """Copy tables and views of a history into a new file of a storage version."""
    import duckdb

    with duckdb.connect() as connection:
        connection.execute(f"ATTACH '{file}' AS old (READ_ONLY)")
        connection.execute(f"ATTACH '{target}' AS new (STORAGE_VERSION '{storage}')")
        connection.execute("COPY FROM DATABASE old TO new")
        connection.execute("CHECKPOINT new")
    return {}


@dataclass(frozen=True)
class Read:
    """What a Python reads of a history."""

    python: str
    file: str
    digests: dict[str, str]

    @classmethod
    def of(cls, python: str, file: str) -> "Read":
        """Read all of it."""
        return cls(python, file, call(python, "read_all", file))

    def rows(self, name: str) -> list:
        """Return the rows of a query or view."""
        return list(call(self.python, "read_rows", self.file, name))


def call(python: str, work: str, *arguments: str):
    """Return what a function of this file returns under another Python."""
    command = [python, __file__, "--call", work, *arguments]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    if ran.returncode:
        return {"": next(line for line in ran.stderr.splitlines()[::-1] if "Error:" in line)}
    return json.loads(ran.stdout)


def compare(title: str, before: Read, after: Read) -> bool:
    """Print where answers differ, and return whether none does."""
    if "" in after.digests:
        say(f"{title}: {after.digests['']}")
        return False
    names = sorted(
        name
        for name, answer in before.digests.items()
        if answer != after.digests.get(name) and not is_close(name, before, after)
    )
    count = len(before.digests)
    say(f"{title}: {count - len(names)} of {count} queries and views the same")
    for name in names:
        say(f"  {name}: {before.digests[name]} -> {after.digests.get(name)}")
    return not names


def is_close(name: str, before: Read, after: Read) -> bool:
    """Tell whether rows are the same but for the last digits of reals, which sums leave open."""
    rows_before, rows_after = before.rows(name), after.rows(name)
    return len(rows_before) == len(rows_after) and all(map(are_close, rows_before, rows_after))


def are_close(before, after) -> bool:
    """Tell whether two values, or all of two lists, are the same or as near as reals come."""
    if isinstance(before, list) and isinstance(after, list):
        return len(before) == len(after) and all(map(are_close, before, after))
    if isinstance(before, float) and isinstance(after, float):
        both_nan = math.isnan(before) and math.isnan(after)
        return both_nan or math.isclose(before, after, rel_tol=1e-9, abs_tol=1e-15)
    return before == after


def say(line: str) -> None:
    """Print a line at once."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main() -> int:
    """Rehearse; the exit code is 1 unless all that should be the same is."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("history", type=Path)
    parser.add_argument("python", help="a Python with the other DuckDB")
    parser.add_argument("--storage", default="v1.5.0", help="what the way back is written as")
    given = parser.parse_args()
    current, newer = sys.executable, given.python
    with tempfile.TemporaryDirectory() as folder:
        copy, own, back = (str(Path(folder, f"{name}.duckdb")) for name in ("copy", "own", "back"))
        shutil.copy(given.history, copy)
        before = Read.of(current, copy)
        failing = {name: text for name, text in before.digests.items() if " rows, " not in text}
        say(f"before: {len(before.digests)} queries and views; {len(failing)} fail {failing or ''}")
        same = [compare("the newer one, the same file", before, Read.of(newer, copy))]
        say(f"the newer one writes to it: {call(newer, 'touch', copy)}")
        compare("ours, after that", before, Read.of(current, copy))
        say(f"in its own format: {call(newer, 'rewrite', copy, own, 'latest') or 'written'}")
        same += [compare("the newer one, that file", before, Read.of(newer, own))]
        compare("ours, that file", before, Read.of(current, own))
        written = call(newer, "rewrite", own, back, given.storage) or "written"
        say(f"back as {given.storage}: {written}")
        same += [compare("ours, written back", before, Read.of(current, back))]
    return 0 if all(same) and not failing else 1


if __name__ == "__main__":
    if sys.argv[1:2] == ["--call"]:
        json.dump(globals()[sys.argv[2]](*sys.argv[3:]), sys.stdout)
    else:
        sys.exit(main())
