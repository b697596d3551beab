"""What `stepcast fleet` does; only what changes the fleet or runs imports Dagster, for seconds."""

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path

import polars as pl
from pydantic import ValidationError

from fleet import NO_MEMBERS, members
from fleet.history import last_judgements
from fleet.members import Member, member_of, now, read_members
from fleet.schedule import AgendaItem, Visits, agenda, visits, watches
from fleet.status import status
from forecasting.study_checks import check_study, chosen_backend
from pipelines.cli.errors import explain
from pipelines.cli.money import confirm_spending
from pipelines.cli.tables import format_duration, print_table, print_text, tell
from profilers.clusters.node_types import node_group
from profilers.record_file import fault
from studies.plan import tasks
from studies.renting import allowance, check_capped, estimate
from warehouse.child_process import bound
from warehouse.history import known_runs
from warehouse.home import CHECKOUT, home
from warehouse.records import BadInput, StepcastError
from warehouse.warehouse import Warehouse


def add(fields: Mapping[str, object], *, yes: bool = False) -> None:
    """Make a node type a member, and say what that takes in a month.

    Where its nodes are rented, the user is asked, unless `yes`: its visits ask no more.

    Raises:
        BadInput: a field is wrong, it cannot be measured here, or a visit takes more than it may.
    """
    from pipelines import dagster_history
    from pipelines.fleet import keep_partitions

    place = home()
    try:
        member = Member.model_validate({**fields, "added_at": now()})
    except ValidationError as error:
        raise BadInput(fault(error, Member)) from None
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


def _agree(all_visits: Sequence[Visits], max_usd: float, place: Path, *, yes: bool) -> None:
    """Tell what visits cost that rent their nodes, and go on only if the user wants that."""
    may = allowance(place, max_usd, ())
    for planned in all_visits:
        words = estimate(planned.round_.needs, may).in_words(max_usd)
        visits_a_month = planned.month_s / planned.expected_s if planned.expected_s else 0.0
        confirm_spending(f"each of about {visits_a_month:.0f} visits a month: {words}", yes=True)
    confirm_spending("visits are made without a question from now on", yes=yes)


def show_members() -> None:
    """Print the members as they were added."""
    members = read_members(home())
    if not members:
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
        for member in members.values()
    ]
    print_table(pl.DataFrame(rows))


def show_status() -> None:
    """Print members on one line each, those first that somebody should look at."""
    place = home()
    items = agenda(place)
    if items:
        print_table(status(items, last_judgements(place)))
    else:
        show_members()


def run(node_type: str | None, *, watch: bool) -> None:
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
        raise BadInput(f"{node_type} is not watched; `stepcast fleet add` with --watch changes it")
    _visit(wanted, place)


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
        soonest = min((item.due.next for item in items), default=None)
        when = "the fleet has no members" if soonest is None else _until(soonest)
        print_text(f"nothing is due; {when}")
    if failed:
        raise StepcastError("; ".join(failed))


def switch(*, on: bool) -> None:
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
    from pipelines.cli.progress import LineProgress
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


def _until(soonest: datetime) -> str:
    return f"the next is {soonest:%Y-%m-%d %H:%M} UTC"
