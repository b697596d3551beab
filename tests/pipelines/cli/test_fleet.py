"""`stepcast fleet`, every command of it."""

from itertools import takewhile
from pathlib import Path

import dagster as dg
import pytest

from assets.fleet import TYPES
from fleet.members import now, read_members, write_members
from pipelines import dagster_history
from pipelines.fleet import SENSOR
from tests.fleet.made import NODE_TYPE, member
from tests.fleet.paper_watch import PaperWatch
from tests.pipelines.ran import Answer, Stepcast, statuses
from tests.synthetic import PaperProbes
from warehouse.sql import read_only

OTHER = "emu.native.c15"
ADD = ("fleet", "add", NODE_TYPE, "--backend", "loopback")
PROBES = ("--probes", "links,tf_trace")


@pytest.fixture
def paper(probes: PaperProbes, monkeypatch: pytest.MonkeyPatch) -> PaperWatch:
    """Put probes in place that run nothing, the one that watches too; it is returned."""
    installed = PaperWatch(now=now())
    installed.install(monkeypatch)
    return installed


def added(stepcast: Stepcast, *options: str) -> Answer:
    answer = stepcast(*ADD, *options)
    assert answer.code == 0, answer.err
    return answer


def test_a_member_is_added_and_what_it_takes_is_said(stepcast: Stepcast, home: Path) -> None:
    answer = added(stepcast, *PROBES, "--every", "night", "--max-minutes", "5")
    first, second, last = answer.out.splitlines()
    assert (
        first == f"{NODE_TYPE} is a member: links, tf_trace every night, about 1 min 20 s each time"
    )
    assert second.startswith("in a month that takes about ")
    assert second.endswith(" of machine time, the nightly watch included")
    assert "`stepcast fleet resume` does it on schedule" in last
    (member,) = read_members(home).values()
    assert (member.probes, member.every, member.max_minutes) == (("links", "tf_trace"), "night", 5)
    assert member.watched
    with dagster_history.instance(home) as instance:
        assert instance.get_dynamic_partitions(str(TYPES.name)) == [NODE_TYPE]
        assert not instance.get_runs(), "nothing is measured"


def test_adding_again_changes_it(stepcast: Stepcast, home: Path) -> None:
    added(stepcast, *PROBES)
    answer = added(stepcast, "--probes", "links", "--no-watch")
    assert answer.out.startswith(f"{NODE_TYPE} is changed: links every week")
    assert "watch" not in answer.out
    (member,) = read_members(home).values()
    assert (member.probes, member.watched) == (("links",), False)


def record(printed: str, name: str) -> str:
    """Return the row of a member, with what stands under it where columns do not all fit."""
    lines = printed.splitlines()
    (start,) = [place for place, line in enumerate(lines) if line.startswith(name)]
    under = takewhile(lambda line: line.startswith("  "), lines[start + 1 :])
    return "\n".join([lines[start], *under])


def test_members_are_listed(stepcast: Stepcast, home: Path) -> None:
    empty = "the fleet has no members: `stepcast fleet add` adds one\n"
    assert (stepcast("fleet", "list").out, stepcast("fleet", "status").out) == (empty, empty)
    write_members(
        home, {NODE_TYPE: member(), OTHER: member(OTHER, every="hour", paused=True, watched=False)}
    )
    printed = stepcast("fleet", "list").out
    first, second = record(printed, NODE_TYPE), record(printed, OTHER)
    assert "week at 02:00" in first
    assert "links, contention, tf_trace" in first
    assert "on the calendar" in first
    assert "paused" in second


def test_status_is_one_record_a_member(stepcast: Stepcast, home: Path) -> None:
    write_members(home, {NODE_TYPE: member(), "emu.gone": member("emu.gone", watched=False)})
    answer = stepcast("fleet", "status")
    shown = record(answer.printed, NODE_TYPE)
    for word in ("not watched yet", "never", "now", "never done"):
        assert word in shown
    assert "unknown node type" in answer.printed


def test_a_member_is_paused_resumed_and_removed(stepcast: Stepcast, home: Path) -> None:
    write_members(home, {NODE_TYPE: member()})
    assert stepcast("fleet", "pause", NODE_TYPE).out == f"{NODE_TYPE} is paused\n"
    assert read_members(home)[NODE_TYPE].paused
    assert "nothing is due" in stepcast("fleet", "run").out
    resumed = stepcast("fleet", "resume", NODE_TYPE)
    assert resumed.out == f"{NODE_TYPE} is due by its calendar again\n"
    assert not read_members(home)[NODE_TYPE].paused
    removed = stepcast("fleet", "remove", NODE_TYPE)
    assert removed.out.startswith(f"{NODE_TYPE} is no member of the fleet any more")
    assert read_members(home) == {}
    assert stepcast("fleet", "run").out == "nothing is due; the fleet has no members\n"


def test_what_is_due_is_watched_and_profiled_once(
    stepcast: Stepcast, home: Path, probes: PaperProbes, paper: PaperWatch
) -> None:
    added(stepcast, "--probes", "links,contention")
    assert stepcast("fleet", "run").printed == f"{NODE_TYPE}: done\n" * 2
    assert (paper.asked, probes.asked) == (1, ["links", "contention"])
    assert statuses(home) == [dg.DagsterRunStatus.SUCCESS] * 2
    with dagster_history.instance(home) as instance:
        runs = {run.job_name: run.tags for run in instance.get_runs()}
    assert runs.keys() == {"fleet_watch", "fleet_profiles"}
    assert {tags["dagster/partition"] for tags in runs.values()} == {NODE_TYPE}
    assert {tags["stepcast/measures"] for tags in runs.values()} == {"this host"}

    again = stepcast("fleet", "run")
    assert again.out.startswith("nothing is due; the next is ")
    assert (paper.asked, probes.asked) == (1, ["links", "contention"])
    shown = stepcast("fleet", "status").out
    assert "too little history" in shown
    assert "done" in shown

    anyway = stepcast("fleet", "run", NODE_TYPE)
    assert anyway.code == 0, anyway.err
    assert probes.asked[2:] == ["links", "contention"], "a second visit, due or not"
    repeats = read_only(home, "SELECT repeat FROM raw.run WHERE probe = 'links' ORDER BY 1")
    assert repeats["repeat"].to_list() == [1, 2]


def test_a_watch_alone_profiles_nothing(
    stepcast: Stepcast, home: Path, probes: PaperProbes, paper: PaperWatch
) -> None:
    write_members(home, {NODE_TYPE: member()})
    answer = stepcast("fleet", "run", NODE_TYPE, "--watch")
    assert (answer.code, answer.out) == (0, f"{NODE_TYPE}: done\n"), answer.err
    assert f"{NODE_TYPE}, watch: 1 runs" in answer.err
    assert (paper.asked, probes.asked) == (1, [])


@pytest.mark.exhaustive
@pytest.mark.usefixtures("paper")
def test_a_probe_that_fails_ends_with_its_reason(
    stepcast: Stepcast, home: Path, probes: PaperProbes
) -> None:
    write_members(home, {NODE_TYPE: member(watched=False)})
    probes.fail_at = "contention"
    answer = stepcast("fleet", "run", NODE_TYPE)
    assert answer.code == 1
    assert "no paper left" in answer.err
    assert "Traceback" not in answer.err
    assert statuses(home) == [dg.DagsterRunStatus.FAILURE]
    assert "failed" in stepcast("fleet", "status").out
    assert stepcast("fleet", "run").out.startswith("nothing is due; "), "until its next turn"
    probes.fail_at = ""
    assert stepcast("fleet", "run", NODE_TYPE).code == 0
    assert probes.asked == ["links", "contention", "contention", "profile small_cnn"]


@pytest.mark.exhaustive
def test_the_schedule_is_switched_on_and_off(stepcast: Stepcast, home: Path) -> None:
    for word in ("resume", "pause"):
        answer = stepcast("fleet", word)
        shown = {"resume": "on", "pause": "off"}[word]
        assert answer.printed.startswith(f"the fleet's schedule is {shown}: ")
        with dagster_history.instance(home) as instance:
            states = {state.name: state.status.value for state in instance.all_instigator_state()}
        assert states[SENSOR] == {"resume": "RUNNING", "pause": "STOPPED"}[word]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((*ADD[1:], "--probes", "linkz"), "probes: no probe 'linkz' of the fleet; did you mean"),
        (
            (*ADD[1:], "--probes", "tf_trace", "--networks", "resnet18"),
            "tf_trace has nothing to measure of resnet18",
        ),
        (
            (*ADD[1:], "--max-minutes", "0.3"),
            "more than --max-minutes 0.3; name fewer probes or networks, or allow more",
        ),
        (("add", NODE_TYPE, "--backend", "ec2"), "say with --max-usd what they may cost"),
        (
            ("run", NODE_TYPE, "--watch"),
            f"{NODE_TYPE} is not watched; `stepcast fleet add` without",
        ),
        (("run", "emu.gone"), "emu.gone: "),
    ],
)
def test_mistakes_are_one_line(
    arguments: tuple[str, ...], message: str, stepcast: Stepcast, home: Path
) -> None:
    members = {NODE_TYPE: member(watched=False), "emu.gone": member("emu.gone")}
    write_members(home, members)
    answer = stepcast("fleet", *arguments)
    line = answer.err.strip()
    assert (answer.code, answer.out) == (2, ""), line
    assert line.startswith("stepcast: ")
    assert message in line
    assert "\n" not in line
    assert read_members(home) == members
