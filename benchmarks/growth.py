"""A history as it is after years: each run of a home once more, so many times, earlier each time.

Copies are rows of the warehouse alone: nothing landed of them.
"""

from pathlib import Path

from warehouse.connection import connect
from warehouse.home import HISTORY, MAIN
from warehouse.publication import publish
from warehouse.tables import SCHEMAS

_SHIFTED = """
    repeat + 1000 * number AS repeat,
    started_at - number * INTERVAL 1 DAY AS started_at,
    ended_at - number * INTERVAL 1 DAY AS ended_at
"""


def grow(home: Path, factor: int) -> None:
    """Copy our own runs of a home until there are `factor` times as many, and publish them.

    What others measured stays as it is: a set of public measurements comes once.
    """
    ours = "run_id IN (SELECT run_id FROM raw.run WHERE backend <> 'imported')"
    shifted = {("raw", "run"): _SHIFTED}
    with connect(home / MAIN) as connection:
        for schema, table in [("meta", "loaded"), *(("raw", name) for name in SCHEMAS)]:
            columns = ["run_id || format('-{:03}', number) AS run_id"]
            columns += filter(None, [shifted.get((schema, table))])
            connection.execute(f'CREATE TEMP TABLE before AS FROM {schema}."{table}" WHERE {ours}')
            connection.execute(
                f'INSERT INTO {schema}."{table}" BY NAME '
                f"SELECT before.* REPLACE ({', '.join(columns)}) "
                "FROM before, range(1, $factor) AS numbers(number)",
                {"factor": factor},
            )
            connection.execute("DROP TABLE before")
        publish(connection, home / MAIN, home / HISTORY)
