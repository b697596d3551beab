"""Whatever goes wrong: no cost past the cap, and nothing is forgotten."""

from contextlib import suppress
from itertools import count
from pathlib import Path

import pytest

from profilers.renting.book import UNANSWERED, LaunchRefusal
from profilers.renting.cap import bill, worst_usd
from profilers.renting.provider import OutcomeUnknown
from profilers.renting.renter import Renter
from tests.profilers.renting.sequences import check_lives, clear_up
from tests.profilers.renting.world import ACCOUNT, PLACES, Killed, World
from warehouse.records import BadInput, ProbeFailed

CHEAP, DEAR = PLACES[:1], PLACES[2:]


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path / "rented", cap_usd=40.0)


def test_no_random_life_costs_more_than_the_cap_or_leaves_anything(tmp_path: Path) -> None:
    check_lives(200, tmp_path)


FAULTY = ["full", "after", "before", "fine", "fine", "fine", "before", "after", "refused"]


def _commands(renter: Renter) -> None:
    """Launch where there is none, then with lost answers, then well; end some, then all."""
    renter.launch(PLACES, 2, most_hours=1.0)
    ids = renter.launch(CHEAP, 2, most_hours=0.5)
    renter.end(ids[:1])
    renter.end_all()


@pytest.mark.parametrize("faults", [[], FAULTY, ["late", "half", "slow", "half", "half"]])
def test_killed_at_any_point_nothing_is_forgotten(tmp_path: Path, faults: list[str]) -> None:
    killed = 0
    for number in count():
        world = World(tmp_path / f"rented-{number}", 40.0, faults=list(faults), kill_in=number)
        try:
            _commands(world.renter())
        except Killed:
            killed += 1
        else:
            break
        world.check()
        clear_up(world)
    assert killed == world.points > 20


def test_a_killed_settling_is_settled_by_the_next(tmp_path: Path) -> None:
    for number in count():
        world = World(tmp_path / f"rented-{number}", 40.0, faults=["after"], kill_in=3)
        with pytest.raises(Killed):
            world.renter().launch(CHEAP, 3, most_hours=1.0)
        world.kill_in = number
        try:
            world.renter().settle(world.read().intents.values())
        except Killed:
            clear_up(world)
        else:
            break
    assert number > 5


def test_a_refusal_after_a_lost_answer_leaves_the_launch_open(world: World) -> None:
    world.faults = ["after", "refused"]
    with pytest.raises(ProbeFailed, match="RequestExpired"):
        world.renter().launch(CHEAP, 2, most_hours=1.0)
    (open_,) = world.read().unanswered
    assert world.renter().bill.open_usd == worst_usd(open_)
    assert world.renter().end_all() == ()
    assert world.alive() == [] and len(world.instances) == 2


def test_each_attempt_has_a_token_of_its_own_and_each_repetition_the_same(world: World) -> None:
    world.faults = ["full", "before", "after"]
    world.renter().launch(PLACES, 1, most_hours=1.0)
    first, second = world.read().intents.values()
    assert first.token != second.token
    assert {instance.intent.token for instance in world.instances.values()} == {second.token}
    assert world.read().refused.keys() == {first.token}


def test_a_cheaper_place_is_asked_after_a_dear_one(world: World) -> None:
    world.cap_usd = 1.0
    (id_,) = world.renter().launch((*DEAR, *CHEAP), 1, most_hours=0.5)
    assert world.instances[id_].intent.node_type == "p3.2xlarge"


def test_what_was_never_answered_counts_as_paid_when_its_time_is_over(world: World) -> None:
    world.faults = ["before"] * 4
    with pytest.raises(OutcomeUnknown):
        world.renter().launch(CHEAP, 2, most_hours=1.0)
    (token,) = world.read().intents
    assert world.renter().end_all() == (token,)
    world.pass_(3 * 3600)
    assert world.renter().end_all() == ()
    entries = world.read()
    assert [entry.code for entry in entries.all if isinstance(entry, LaunchRefusal)] == [UNANSWERED]
    assert bill(entries.of(ACCOUNT)).spent_usd == worst_usd(entries.intents[token])


def test_what_a_provider_does_not_end_is_named(world: World) -> None:
    messages: list[str] = []
    renter = world.renter()
    renter.say = messages.append
    ids = renter.launch(CHEAP, 2, most_hours=1.0)
    world.faults = ["refused"] * 100
    assert renter.end(ids) == tuple(ids)
    assert f"COULD NOT END {', '.join(ids)}" in messages[-1]


def test_nothing_is_rented_and_everything_ends_on_a_full_disk(world: World) -> None:
    renter = world.renter()
    renter.launch(CHEAP, 2, most_hours=1.0)
    world.full_writes = 1
    with pytest.raises(BadInput, match="nothing is rented that is not written down"):
        renter.launch(CHEAP, 2, most_hours=1.0)
    assert len(world.instances) == 2
    world.full_writes = 1000
    assert renter.end_all() == ()
    assert world.alive() == []
    with suppress(BadInput):
        clear_up(world)
