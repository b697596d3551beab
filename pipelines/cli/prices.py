"""`stepcast prices …`: what nodes cost, asked of their provider, and as it was known on any day."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated

import polars as pl
import typer

from pipelines.cli.query import Form, history_here
from pipelines.cli.tables import print_frame, print_text, tell
from pipelines.cli.warehouse import check_all_loaded
from studies.messages import count
from warehouse.fields import nearest_names
from warehouse.home import HISTORY, home
from warehouse.landing import run_folders
from warehouse.records import BadInput
from warehouse.warehouse import Warehouse

app = typer.Typer(
    name="prices",
    help="Collect prices of node types, and show what was known when.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@app.command()
def collect(
    region: Annotated[
        list[str] | None,
        typer.Option(help="A region of AWS; may be repeated. Else the fleet file's or your own."),
    ] = None,
    node_type: Annotated[
        list[str] | None,
        typer.Option(
            "--type",
            help="An instance type, * for any letters; may be repeated. Else those of the fleet "
            "file, of the papers and of `stepcast node-types`.",
        ),
    ] = None,
    days: Annotated[float, typer.Option(help="How far back spot prices go, at most 90.")] = 2,
) -> None:
    """Ask AWS for instance types, on-demand prices and spot prices, and append what it says.

    Linux on shared machines, in US dollars. Each region lands whole or not at all. Instance types
    that Stepcast does not list become node types of the home. Nothing is rented, and these
    questions cost nothing. Credentials are looked for where boto3 looks; they
    need ec2:DescribeInstanceTypes, ec2:DescribeSpotPriceHistory and pricing:GetProducts.

    Example: stepcast prices collect --region us-east-1 --region eu-west-1 --type 'g5.*'
    """
    from studies.price_collection import collect as collected

    received = collected(Warehouse(home()), region or (), node_type or (), days, say=tell)
    for place, imported in received.seen.items():
        print_text(
            f"{place}: {count(imported.types, 'instance type')}; "
            f"{count(received.rows(place, 'on_demand'), 'on-demand price')}, "
            f"{count(received.rows(place, 'spot'), 'spot price')}; run {imported.run.run_id}"
        )
    check_all_loaded(received.report)
    if received.failed:
        first = next(iter(received.failed.values()))
        raise type(first)("; ".join(f"{place}: {why}" for place, why in received.failed.items()))


@app.command()
def show(
    node_type: Annotated[
        str | None, typer.Option("--type", help="One node type; all if not given.")
    ] = None,
    as_of: Annotated[
        datetime | None, typer.Option(help="As was known then, UTC; now if not given.")
    ] = None,
    form: Form = "table",
) -> None:
    """Show what a node of each type costs an hour, the newest observation first.

    Observed prices count from when they were seen, so the answer as of a date stays as it was.
    What papers print and files declare has a year in place of a date.

    Example: stepcast prices show --type p3.2xlarge --as-of 2026-11-01
    """
    when = None if as_of is None else as_of.replace(tzinfo=UTC).isoformat()
    # Shipped prices need nothing that was measured.
    is_empty = not (home() / HISTORY).exists() and not any(run_folders(home() / "landing"))
    warehouse = Warehouse(home()) if is_empty else history_here()
    known = warehouse.query("prices_as_of", node_type=node_type, as_of=when)
    if node_type is not None and known.is_empty():
        # A type that has prices of another market or day has no rows, which is an answer.
        others = warehouse.query("prices_as_of")["node_type"].unique().sort().to_list()
        if node_type not in others:
            raise BadInput(_no_price(node_type, others))
    date = pl.col("observed_at").dt.convert_time_zone("UTC")
    shown = known.sort(
        ["observed", "observed_at", "node_type", "market", "region", "zone"],
        descending=[True, True, False, False, False, False],
    ).select(
        *("node_type", "market", "usd_per_hour", "region", "zone"),
        pl.when("observed")
        .then(date.dt.strftime("%Y-%m-%d %H:%M"))
        .otherwise(date.dt.strftime("%Y"))
        .alias("since"),
        "source",
    )
    print_frame(shown, form)
    if form == "table" and not known["observed"].any():
        print_text(
            "None of them was observed: `source` says which paper or file they are of. "
            "`stepcast prices collect` asks AWS."
        )


def _no_price(node_type: str, known: Sequence[str]) -> str:
    near = nearest_names(node_type, known)
    hint = f"; did you mean {', '.join(near)}?" if near else ";"
    return (
        f"no price of node type {node_type!r} is known{hint} `stepcast prices collect --type "
        f"{node_type}` asks AWS, and `stepcast import csv node_prices.csv` takes your own "
        "(docs/prices.md)"
    )
