"""`stepcast docs …`: reference text that is printed when it is asked for."""

import textwrap

import typer

from pipelines.cli.tables import print_text

app = typer.Typer(
    name="docs",
    help="Print reference text: the tables and columns of the history.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
WIDTH = 118
_INTRO = """# Which tables and columns does the history have?

A column marked `?` may be NULL. Schema `visible` has the columns of `raw`, limited to runs that
fits may see.
"""
_SCHEMAS = {
    "report": "What to ask first: views that join, judge and summarise.",
    "raw": "What probes landed, row by row; each row names its run.",
    "fit": "Fitted models, and the runs that each fit saw.",
    "pred": "The ledger of predictions and recommendations, and the systems that make them.",
    "catalog": "What papers publish and what node types are.",
    "meta": "How the history came to be: loads, versions, the chain of hashes.",
}


@app.callback()
def _group() -> None:
    """Keep `data` a command of a group, though it is the only one."""


@app.command()
def data() -> None:
    """Print every table and column of the history, with type, meaning and unit, as Markdown.

    It says what a new history has, by the comments in the database; no home is needed.

    Example: stepcast docs data | less
    """
    print_text(dictionary().rstrip("\n"))


def dictionary() -> str:
    """Return the data dictionary of a history that is empty and new."""
    import tempfile
    from pathlib import Path

    from warehouse.warehouse import Warehouse, read_only

    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder) / "home"
        Warehouse(home).load()
        tables = read_only(
            home,
            "SELECT schema_name, table_name AS name, comment FROM duckdb_tables() UNION ALL "
            "SELECT schema_name, view_name, comment FROM duckdb_views() WHERE NOT internal",
        )
        columns = read_only(
            home,
            "SELECT schema_name, table_name AS name, column_name, lower(data_type) AS type, "
            "is_nullable, comment FROM duckdb_columns() WHERE NOT internal ORDER BY column_index",
        )
    parts = [_INTRO]
    for schema, what in _SCHEMAS.items():
        parts.append(f"\n## {schema}\n{wrapped(what)}\n")
        for table in tables.filter(schema_name=schema).sort("name").iter_rows(named=True):
            ours = columns.filter(schema_name=schema, name=table["name"])
            parts.append(f"\n### {schema}.{table['name']}\n{wrapped(table['comment'] or '')}\n\n")
            parts += [_column(row) for row in ours.iter_rows(named=True)]
    return "".join(parts)


def _column(row: dict[str, object]) -> str:
    unknown = "?" if row["is_nullable"] else ""
    said = f": {row['comment']}" if row["comment"] else ""
    return item(f"`{row['column_name']}` {row['type']}{unknown}{said}")


def item(text: str) -> str:
    """Return an item of a list in Markdown, in lines of `WIDTH`."""
    return f"{_filled(f'* {text}', '  ')}\n"


def wrapped(text: str) -> str:
    """Return a paragraph in lines of `WIDTH`."""
    return _filled(text, "")


def _filled(text: str, indent: str) -> str:
    return textwrap.fill(
        " ".join(text.split()),
        WIDTH,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )
