"""`stepcast fleet`: node types that are profiled again and again, and watched for drift.

Only what changes the fleet or runs imports Dagster, for seconds.
"""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import polars as pl
import typer

from fleet import NO_MEMBERS, members
from fleet.history import last_judgements
from fleet.members import Member, change, member_of, now, read_members, remove_member
from fleet.schedule import AgendaItem, Visits, agenda, visits, watches
from fleet.schedule import status as status_of
from forecasting.study_checks import check_study, chosen_backend
from pipelines.cli.errors import explain, interruptible
from pipelines.cli.money import Yes, confirm_spending
from pipelines.cli.progress import LineProgress
from pipelines.cli.tables import format_duration, print_table, print_text, tell
from profilers.clusters.node_types import node_group
from profilers.record_file import validated
from studies.plan import tasks
from studies.renting import allowance, check_capped, estimate
from warehouse.child_process import bound
from warehouse.history import known_runs
from warehouse.home import CHECKOUT, home
from warehouse.records import BadInput, StepcastError
from warehouse.warehouse import Warehouse

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
    unwatched: Annotated[
        bool, typer.Option("--no-watch", help="Do not watch it for drift each night.")
    ] = False,
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
    from pipelines import dagster_history
    from pipelines.fleet import keep_partitions

    place = home()
    fields = {
        "node_type": node_type,
        "probes": _listed(probes),
        "every": every,
        "max_minutes": max_minutes,
        "networks": _listed(networks),
        "watched": not unwatched,
        "backend": backend,
        "max_usd": max_usd,
        "added_at": now(),
    }
    member = validated(Member, fields)
    rents = member.backend == "ec2"
    check_capped("ec2" if rents else chosen_backend(member.backend)[0], member.max_usd)
    node_group("worker", member.node_type, 1)
    known = known_runs(place)
    all_visits = [visits(member, known), *([watches(member, known)] if member.watched else [])]
    for planned in all_visits:
        source = Path(planned.round_.study.name)
        check_study(planned.round_.study, source, planned.round_.backend, planned.round_.asking)
    takes_s = all_visits[0].expected_s
    if takes_s > 60 * member.max_minutes:
        raise BadInput(
            f"a visit takes about {format_duration(takes_s)}, more than --max-minutes "
            f"{member.max_minutes:g}; name fewer probes or networks, or allow more"
        )
    if member.max_usd is not None:
        _agree(all_visits, member.max_usd, place, yes=yes)
    is_new = members.add(place, member)
    with dagster_history.instance(place) as instance:
        keep_partitions(instance, read_members(place))
    print_text(
        f"{member.node_type} is {'a member' if is_new else 'changed'}: {', '.join(member.probes)} "
        f"every {member.every}, about {format_duration(takes_s)} each time"
    )
    month_s = sum(planned.month_s for planned in all_visits)
    watching = "" if not member.watched else ", the nightly watch included"
    print_text(f"in a month that takes about {format_duration(month_s)} of machine time{watching}")
    print_text(
        "`stepcast fleet run` does what is due now; `stepcast fleet resume` does it on schedule"
    )


@app.command("list")
def list_() -> None:
    """List the members of the fleet, and what is done of each.

    Example: stepcast fleet list
    """
    listed = read_members(home())
    if not listed:
        print_text(NO_MEMBERS)
        return
    rows = [
        {
            "node_type": member.node_type,
            "every": f"{member.every} at {member.at}" if member.every != "hour" else member.every,
            "probes": ", ".join(member.probes),
            "networks": ", ".join(member.networks),
            "max_minutes": member.max_minutes,
            "watched": member.watched,
            "state": "paused" if member.paused else "on the calendar",
        }
        for member in listed.values()
    ]
    print_table(pl.DataFrame(rows))


@app.command()
def status() -> None:
    """Show each member on one line: profiles, drift, next turn; those first that need a look.

    Example: stepcast fleet status
    """
    place = home()
    if items := agenda(place):
        print_table(status_of(items, last_judgements(place)))
    else:
        list_()


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
    with interruptible(
        "stopped, and everything torn down; the same command goes on where it stopped"
    ):
        _run(node_type, watch=watch)


def _change(node_type: str | None, *, paused: bool) -> None:
    if node_type is None:
        _switch(on=not paused)
        return
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


def _run(node_type: str | None, *, watch: bool) -> None:
    """Make a visit to a member, or all visits that are due.

    Raises:
        BadInput: there is no such member, or it cannot be measured here.
        StepcastError: visits failed; the others were made.
    """
    place = home()
    Warehouse(place).load()  # what landed before a kill
    if node_type is None:
        _run_due(place, watch=watch)
        return
    member_of(read_members(place), node_type)
    items = [item for item in agenda(place) if item.member.node_type == node_type]
    wanted = next((item for item in items if item.watches == watch), None)
    if wanted is None:
        raise BadInput(
            f"{node_type} is not watched; `stepcast fleet add` without --no-watch changes it"
        )
    _visit(wanted, place)


def _agree(all_visits: Sequence[Visits], max_usd: float, place: Path, *, yes: bool) -> None:
    """Tell what visits cost that rent their nodes, and go on only if the user wants that."""
    may = allowance(place, max_usd, ())
    for planned in all_visits:
        words = estimate(planned.round_.needs, may, max_usd)
        visits_a_month = planned.month_s / planned.expected_s if planned.expected_s else 0.0
        confirm_spending(f"each of about {visits_a_month:.0f} visits a month: {words}", yes=True)
    confirm_spending("visits are made without a question from now on", yes=yes)


def _run_due(place: Path, *, watch: bool) -> None:
    """Make every visit that is due, each once: a watch may make one of its type due."""
    made: set[tuple[str, bool]] = set()
    failed: list[str] = []
    while True:
        items = agenda(place)
        due = [item for item in items if item.due.now and item.watches >= watch]
        due = [item for item in due if (item.member.node_type, item.watches) not in made]
        if not due:
            break
        for item in due:
            made.add((item.member.node_type, item.watches))
            try:
                _visit(item, place)
            except Exception as error:
                # One that fails takes no other with it; all of them are told at the end.
                failed.append(f"{item.member.node_type}: {explain(error)[1]}")
                tell(failed[-1])
    if not made:
        when = "the fleet has no members"
        if items:
            soonest = min(item.due.next for item in items)
            when = f"the next is {soonest:%Y-%m-%d %H:%M} UTC"
        print_text(f"nothing is due; {when}")
    if failed:
        raise StepcastError("; ".join(failed))


def _switch(*, on: bool) -> None:
    """Switch the sensor on or off that asks for what is due.

    Raises:
        StepcastError: Dagster could not.
    """
    from pipelines import dagster_history
    from pipelines.fleet import SENSOR

    place = home()
    dagster_history.prepare(place)
    verb = "start" if on else "stop"
    module = ["-m", "pipelines.definitions", "--working-directory", str(CHECKOUT)]
    command = [sys.executable, "-m", "dagster", "sensor", verb, SENSOR, *module]
    env = {**os.environ, "STEPCAST_HOME": str(place)}
    done = subprocess.run(
        bound(command), env=env, capture_output=True, text=True, timeout=300, cwd=place
    )
    if done.returncode:
        raise StepcastError(f"Dagster could not {verb} {SENSOR}: {done.stderr.strip()[-300:]}")
    what = "what is due runs while `stepcast ui` runs" if on else "nothing runs by itself"
    print_text(f"the fleet's schedule is {'on' if on else 'off'}: {what}")


def _visit(item: AgendaItem, place: Path) -> None:
    from pipelines import dagster_history, execution
    from pipelines.fleet import keep_partitions

    if item.visits is None:
        raise BadInput(f"{item.member.node_type}: {item.due.why}")
    round_ = item.visits.round_
    ahead = tasks(round_)
    what = "watch" if item.watches else f"visit {round_.repeat}"
    seconds = format_duration(sum(task.expected_s for task in ahead))
    print_text(
        f"{item.member.node_type}, {what}: {len(round_.missing)} runs, about {seconds}", err=True
    )
    with dagster_history.instance(place) as instance:
        keep_partitions(instance, read_members(place))
        execution.execute_item(instance, item, LineProgress(ahead))
    print_text(f"{item.member.node_type}: done")
