"""Whatever goes wrong: no cost past the cap, and nothing is forgotten."""

from collections.abc import Sequence
from contextlib import suppress
from itertools import count
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from profilers.renting.book import UNANSWERED, LaunchRefusal
from profilers.renting.cap import bill, worst_usd
from profilers.renting.renter import OutcomeUnknown, Renter
from tests.profilers.renting.world import ACCOUNT, FAULTS, PLACES, Killed, World
from warehouse.records import BadInput, ProbeFailed, StepcastError

CHEAP, DEAR = PLACES[:1], PLACES[2:]
Step = tuple[str, float]
_DAY_S = 86_400.0
_STEPS: tuple[Step, ...] = (
    *(("launch", number) for number in (1, 2, 3, 1, 2, 3, 1, 2, 3, 1, 2, 1)),
    *(("pass", seconds) for seconds in (1, 70, 2400, 4 * 3600, 1.2 * _DAY_S)),
    *(("set", seconds) for seconds in (-_DAY_S, _DAY_S, 0)),
    *(("kill", points) for points in (0, 2, 3, 4, 5, 6, 8, 11, 20)),
    *(("full", writes) for writes in (1, 2)),
    *(("end", which) for which in (0, 1)),
    ("end_all", 0),
    ("restart", 0),
)
LIVES = st.tuples(
    st.lists(st.sampled_from(_STEPS), min_size=6, max_size=20),
    st.lists(st.sampled_from(("fine",) * 5 + FAULTS), min_size=8, max_size=40),
    st.sampled_from([3.0, 12.0, 40.0]),
    st.booleans(),
)
Life = tuple[Sequence[Step], Sequence[str], float, bool]


def live(life: Life, folder: Path) -> None:
    """Live a life, check the world after each step, and clear up in the end."""
    steps, faults, cap_usd, silent = life
    world = World(folder, cap_usd, list(faults))
    renter = world.renter(silent=silent)
    for step in steps:
        try:
            with suppress(StepcastError):
                _done(world, renter, step)
        except Killed:
            renter = world.renter(silent=silent)
            with suppress(StepcastError):
                renter.settle(world.read().intents.values())
        if step[0] == "restart":
            renter = world.renter(silent=silent)
        world.check()
    clear_up(world)


def clear_up(world: World) -> None:
    """Settle everything in a new process, with a provider that answers; check that all is gone."""
    world.faults, world.kill_in, world.full_writes = [], None, 0
    left = world.renter().settle(world.read().intents.values())
    assert not world.alive(), f"{world.alive()} live on"
    # What a provider has forgotten may count as living, until the time it was launched for is over.
    assert not {*left} & {*world.shown()}, f"{left} ended, and count as living"
    world.check()
    world.pass_(3 * _DAY_S)
    assert world.renter().settle(world.read().intents.values()) == ()
    billed = bill(world.read().of(ACCOUNT))
    assert billed.open_usd == 0
    assert world.usd() <= billed.spent_usd + 1e-9 <= world.cap_usd + 2e-9


def end_all(renter: Renter) -> tuple[str, ...]:
    """End whatever an account may have; return what is left."""
    return renter.settle(renter.book.read().of(renter.account).intents.values())


def _done(world: World, renter: Renter, step: Step) -> None:
    what, value = step
    if what == "launch":
        renter.launch(PLACES, int(value), most_hours=1.5)
    elif what == "end":
        renter.end(list(world.read().living)[int(value) :: 2])
    elif what == "end_all":
        end_all(renter)
    elif what == "pass":
        world.pass_(value)
    elif what == "set":
        world.set_s = value
    elif what == "kill":
        world.kill_in = int(value)
    elif what == "full":
        world.full_writes = int(value)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path / "rented", cap_usd=40.0)


@settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))
@given(life=LIVES)
def test_no_random_life_costs_more_than_the_cap_or_leaves_anything(
    life: Life, tmp_path_factory: pytest.TempPathFactory
) -> None:
    live(life, tmp_path_factory.mktemp("life") / "rented")


FAULTY = ["full", "after", "before", "fine", "fine", "fine", "before", "after", "refused"]


def _commands(renter: Renter) -> None:
    """Launch where there is none, then with lost answers, then well; end some, then all."""
    renter.launch(PLACES, 2, most_hours=1.0)
    ids = renter.launch(CHEAP, 2, most_hours=0.5)
    renter.end(ids[:1])
    end_all(renter)


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
    assert end_all(world.renter()) == ()
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
    assert end_all(world.renter()) == (token,)
    world.pass_(3 * 3600)
    assert end_all(world.renter()) == ()
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
    assert end_all(renter) == ()
    assert world.alive() == []
    with suppress(BadInput):
        clear_up(world)
