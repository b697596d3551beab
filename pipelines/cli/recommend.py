"""`stepcast recommend`: which nodes to rent for a job, what that takes and costs, how surely."""

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from pipelines.cli.pictures import check_picture, write_picture
from warehouse.home import home
from warehouse.records import Backend, BadInput

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Choice = Literal["cost", "time"]
Markets = Literal["spot", "on_demand", "any"]


def recommend(
    system: Annotated[str, typer.Option(help="The system that is asked.")],
    model: Annotated[str, typer.Option(help="The network; `stepcast networks` lists them.")],
    global_batch: Annotated[int, typer.Option(help="Samples of a step, of all nodes together.")],
    iterations: Annotated[int, typer.Option(help="Steps of the job.")],
    capacity: Annotated[
        list[str], typer.Option(help="Nodes there are, as TYPE=COUNT; may be repeated.")
    ],
    minimize: Annotated[Choice, typer.Option(help="What counts.")] = "cost",
    max_hours: Annotated[float | None, typer.Option(help="Deadline; none if not given.")] = None,
    budget_usd: Annotated[float | None, typer.Option(help="Budget; none if not given.")] = None,
    max_usd_per_hour: Annotated[
        float | None, typer.Option(help="What all nodes may cost an hour; any price if not given.")
    ] = None,
    market: Annotated[Markets, typer.Option(help="Which prices.")] = "on_demand",
    as_of: Annotated[
        datetime | None, typer.Option(help="Prices as of this date, UTC; now if not given.")
    ] = None,
    image_size: Annotated[
        int | None, typer.Option(help="Side of images, pixels; if several were profiled.")
    ] = None,
    link_mbps: Annotated[
        float | None, typer.Option(help="Speed of links; if several were probed.")
    ] = None,
    backend: Annotated[
        Backend | None, typer.Option(help="Whose profiles to use; else the newest that do.")
    ] = None,
    front: Annotated[
        bool, typer.Option("--front", help="Show what more money buys, up to the fastest.")
    ] = False,
    picture: Annotated[
        Path | None, typer.Option(help="Draw time against cost, to a .png or .svg.")
    ] = None,
) -> None:
    """Recommend nodes for a job, and write the recommendation to the ledger.

    Prints the choice, the next best, what rules of thumb would have taken, and how wrong forecasts
    of this system have been. Nothing feasible: what to relax, and by how much.

    Example: stepcast recommend --system srift --model resnet50 --global-batch 1024 --iterations
    10000 --max-hours 2 --budget-usd 30 --capacity g4dn.8xlarge=16 --market spot --as-of 2020-01-15
    --front --picture front.svg
    """
    from forecasting import recommending
    from forecasting.advisers import adviser
    from models.choosing.advice import Question
    from pipelines.cli.recommended import print_recommended
    from warehouse.warehouse import Warehouse

    _positive(
        **{"--global-batch": global_batch, "--iterations": iterations},
        **{"--max-hours": max_hours, "--budget-usd": budget_usd, "--link-mbps": link_mbps},
        **{"--max-usd-per-hour": max_usd_per_hour},
    )
    check_picture(picture)
    question = Question(
        dnn=model,
        image_size=image_size,
        global_batch=global_batch,
        iterations=iterations,
        minimize=minimize,
        max_hours=max_hours,
        budget_usd=budget_usd,
        max_usd_per_hour=max_usd_per_hour,
        link_mbps=link_mbps,
    )
    when = datetime.now(UTC) if as_of is None else as_of.replace(tzinfo=UTC)
    rented = recommending.Market(dict(_capacity(text) for text in capacity), market, when)
    warehouse = Warehouse(home())
    if not (warehouse.home / "warehouse.duckdb").exists():
        raise BadInput(f"no warehouse in {warehouse.home} yet; run a study: `stepcast run`")
    found = recommending.recommend(
        warehouse,
        adviser(system),
        question,
        rented,
        backend=backend,
        with_front=front or picture is not None,
        say=lambda text: typer.echo(text, err=True),
    )
    print_recommended(system, question, rented, found)

    def drawn() -> "Figure":
        from reports.recommended_plot import time_against_cost

        return time_against_cost(system, question, found)

    write_picture(picture, drawn)


def _positive(**values: float | None) -> None:
    for option, value in values.items():
        if value is not None and not 0 < value < float("inf"):
            raise BadInput(f"{option}: expected a number above 0, found {value:g}")


def _capacity(text: str) -> tuple[str, int]:
    node_type, equals, count = text.partition("=")
    if not node_type or not equals or not count.isdecimal() or not int(count):
        raise BadInput(f"--capacity {text!r}: expected TYPE=COUNT, e.g. g4dn.8xlarge=16")
    return node_type, int(count)
