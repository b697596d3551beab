"""`stepcast decisions`: what systems and rules of thumb would have rented, judged."""

import shutil
import tempfile
from pathlib import Path
from typing import Annotated

import typer

from pipelines.cli.ask import warehouse_here
from pipelines.cli.tables import Format, print_frame, print_text
from warehouse.history import History
from warehouse.home import HISTORY, MAIN
from warehouse.records import BadInput
from warehouse.warehouse import Warehouse


def decisions(
    seed: Annotated[int, typer.Option(help="Seed of the random limits of questions.")] = 34,
    questions: Annotated[
        int, typer.Option(min=1, max=100, help="Questions of each kind about each menu.")
    ] = 3,
    form: Annotated[Format, typer.Option("--format", help="How rows are printed.")] = "table",
) -> None:
    """Let every system and rule of thumb decide what to rent of what was measured, and judge them.

    A menu is what a round measured of one network: node types, numbers of workers and servers. For
    each, limits are drawn between the best and the worst that was measured. Whoever chooses sees
    forecasts from before the measurements, and errors from before all of them. `stepcast query
    decisions` shows the board again, view report.decision each decision.

    Where the home cannot be written, decisions are made of its published history and not kept.

    Example: stepcast decisions --seed 7
    """
    from forecasting.decisions.board import decisions as decided

    warehouse = warehouse_here()
    rows = decided(warehouse, seed, questions)
    if rows.is_empty():
        raise BadInput(
            "nothing to decide: no round has measured three scenarios of one network after their "
            "forecasts, with prices; run a study or `stepcast reproduce data/reference`"
        )
    print_text(
        f"{rows.height} decisions about {rows['question_id'].n_unique()} questions.", err=True
    )
    if not isinstance(warehouse, History):
        warehouse.record_decisions(rows)
        print_frame(warehouse.query("decisions", seed=seed), form)
        return
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder)
        shutil.copyfile(warehouse.home / HISTORY, copy / MAIN)
        judged = Warehouse(copy)
        judged.record_decisions(rows)
        print_frame(judged.query("decisions", seed=seed), form)
