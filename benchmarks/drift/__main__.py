"""`python -m benchmarks.drift`: collect probes, replay days of them."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from warehouse.records import StepcastError

app = typer.Typer(
    help="How soon drift is found, and how often for nothing.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
Landing = Annotated[Path, typer.Argument(help="The folder where the probes land.")]


def _say(line: str) -> None:
    typer.echo(line, err=True)


@app.command()
def collect(
    landing: Landing,
    node_type: Annotated[str, typer.Option("--type", help="Node type.")] = "emu.avx2.s15",
    quiet: Annotated[int, typer.Option(min=0, help="Quiet probes.")] = 60,
    each: Annotated[int, typer.Option(min=0, help="Probes of each kind and size.")] = 6,
    seed: Annotated[int, typer.Option(help="Of the order.")] = 0,
) -> None:
    """Run probes for real, quiet ones and of nodes made slower; go on where it was ended."""
    from benchmarks.drift import collecting

    collecting.collect(node_type, landing, quiet_probes=quiet, each=each, seed=seed, say=_say)


@app.command(name="replay")
def replay_days(
    landing: Landing,
    out: Annotated[Path, typer.Option(help="Folder for drift.svg and its tables.")] = Path("drift"),
    seeds: Annotated[int, typer.Option(min=1, help="Replays of 100 days, of each half.")] = 20,
    confirm_z: Annotated[float, typer.Option(help="Threshold of a second probe.")] = 2.5,
    change: Annotated[float, typer.Option(help="The least change that matters.")] = 0.04,
) -> None:
    """Judge days that are drawn from what landed, and say what was found how soon."""
    from benchmarks.drift import outcome
    from benchmarks.drift.landed import of_one_type, probed, quiet
    from benchmarks.drift.replaying import chosen, crossed, replay
    from fleet.drift import Thresholds

    probes = probed(landing)
    of_one_type(probes, landing)
    thresholds = replace(Thresholds(), confirm_z=confirm_z, change=change)
    replayed = replay(probes, thresholds, seeds=seeds, where=landing, say=_say)
    best = [chosen(replayed, half) for half in (0, 1)]
    judged = crossed(replayed, best)
    table = outcome.hits(judged, probes)
    for line in outcome.in_words(table, best):
        typer.echo(line)
    for what, rate, low, high, days in outcome.false_alarms(judged, len(quiet(probes))).rows():
        typer.echo(
            f"false {what}: {rate:.2f} per 100 quiet days [{low:.2f}, {high:.2f}], {days} days"
        )
    title = f"{probes[0].node_type}: {len(probes)} probes"
    figure = outcome.draw(outcome.trade_off(replayed), best, title)
    outcome.write(out, replayed, table, figure)
    typer.echo(f"drawn in {out}")


def main() -> None:
    """Run a command; what the user can mend is one line."""
    try:
        app()
    except StepcastError as error:
        typer.echo(str(error), err=True)
        raise SystemExit(error.exit_code) from None


if __name__ == "__main__":
    main()
