"""`stepcast fleet`: node types that are profiled again and again, and watched for drift."""

from typing import Annotated

import typer

from fleet import NO_MEMBERS
from pipelines.cli.errors import Interrupted
from pipelines.cli.money import Yes
from pipelines.cli.tables import print_text
from warehouse.home import FLEET_MEMBERS, home
from warehouse.records import BadInput

app = typer.Typer(
    name="fleet",
    help="Profile node types on a schedule, and notice changes.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
NodeType = Annotated[str, typer.Argument(help="A node type: `stepcast node-types` lists them.")]
MemberOrSchedule = Annotated[
    str | None, typer.Argument(help="A member; the schedule of all if not given.")
]


@app.command()
def add(
    node_type: NodeType,
    probes: Annotated[str, typer.Option(help="What profiles it: a,b.")] = "links,torch_compute",
    every: Annotated[str, typer.Option(help="hour, night, week or month.")] = "week",
    max_minutes: Annotated[float, typer.Option(help="What one visit may take.")] = 20,
    networks: Annotated[str, typer.Option(help="What is profiled on it: a,b.")] = "small_cnn",
    watched: Annotated[
        bool, typer.Option("--watch/--no-watch", help="Watch it for drift each night.")
    ] = True,
    backend: Annotated[str, typer.Option(help="auto, emulated, loopback, ssh or ec2.")] = "auto",
    max_usd: Annotated[
        float | None,
        typer.Option(help="What a visit may cost at most, US dollars; needed with --backend ec2."),
    ] = None,
    yes: Yes = False,
) -> None:
    """Make a node type a member of the fleet, or change what is done of it.

    Options that are not given get their defaults; a member that was paused goes on.

    Says what that will take in a month. Nothing is measured before `stepcast fleet resume`, or
    `stepcast fleet run`.

    Example: stepcast fleet add emu.avx2.s15 --every week --probes links,torch_compute
    --max-minutes 20
    """
    from pipelines.cli import fleet_job

    fields = {
        "node_type": node_type,
        "probes": _listed(probes),
        "every": every,
        "max_minutes": max_minutes,
        "networks": _listed(networks),
        "watched": watched,
        "backend": backend,
        "max_usd": max_usd,
    }
    fleet_job.add(fields, yes=yes)


@app.command("list")
def list_() -> None:
    """List the members of the fleet, and what is done of each.

    Example: stepcast fleet list
    """
    if _has_members():
        from pipelines.cli import fleet_job

        fleet_job.show_members()


@app.command()
def status() -> None:
    """Show each member on one line: profiles, drift, next turn; those first that need a look.

    Example: stepcast fleet status
    """
    if _has_members():
        from pipelines.cli import fleet_job

        fleet_job.show_status()


@app.command()
def pause(node_type: MemberOrSchedule = None) -> None:
    """Leave a member alone until `stepcast fleet resume`; without one, switch the schedule off.

    Example: stepcast fleet pause emu.avx2.s15

    Example: stepcast fleet pause
    """
    _change(node_type, paused=True)


@app.command()
def resume(node_type: MemberOrSchedule = None) -> None:
    """Go on with a member that was paused; without one, switch the schedule on.

    What is due is run on schedule while `stepcast ui` runs.

    Example: stepcast fleet resume emu.avx2.s15

    Example: stepcast fleet resume
    """
    _change(node_type, paused=False)


@app.command()
def remove(node_type: NodeType) -> None:
    """Take a node type out of the fleet; what was measured of it stays.

    Example: stepcast fleet remove emu.avx2.s15
    """
    from fleet.members import remove_member

    remove_member(home(), node_type)
    print_text(f"{node_type} is no member of the fleet any more; what was measured of it stays")


@app.command()
def run(
    node_type: Annotated[
        str | None, typer.Argument(help="A member; all that are due if not given.")
    ] = None,
    watch: Annotated[bool, typer.Option("--watch", help="Only watch it for drift.")] = False,
) -> None:
    """Profile a member now, due or not; without one, do all that is due.

    A visit that was interrupted goes on where it stopped.

    Example: stepcast fleet run emu.avx2.s15

    Example: stepcast fleet run
    """
    from pipelines.cli import fleet_job

    try:
        fleet_job.run(node_type, watch=watch)
    except KeyboardInterrupt:
        raise Interrupted(
            "stopped, and everything torn down; the same command goes on where it stopped"
        ) from None


def _change(node_type: str | None, *, paused: bool) -> None:
    if node_type is None:
        from pipelines.cli import fleet_job

        fleet_job.switch(on=not paused)
        return
    from fleet.members import change

    member = change(home(), node_type, paused=paused)
    print_text(f"{member.node_type} is {'paused' if paused else 'due by its calendar again'}")


def _listed(text: str) -> list[str]:
    """Return what commas part.

    Raises:
        BadInput: nothing is there.
    """
    names = [name.strip() for name in text.split(",") if name.strip()]
    if not names:
        raise BadInput(f"expected names with commas between them, found {text!r}")
    return names


def _has_members() -> bool:
    """Tell whether the fleet ever had members, and say so if not: reading them imports for 2 s."""
    exists = (home() / FLEET_MEMBERS).exists()
    if not exists:
        print_text(NO_MEMBERS)
    return exists
