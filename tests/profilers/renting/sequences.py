"""Random lives of a renter; more of them: `python -m tests.profilers.renting.sequences 5000`."""

import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from profilers.renting.cap import bill
from profilers.renting.renter import Renter
from tests.profilers.renting.world import ACCOUNT, FAULTS, PLACES, Killed, World
from warehouse.records import StepcastError

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


def live(life: Life, folder: Path) -> World:
    """Live a life, check the world after each step, and clear up in the end; return the world."""
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
    return world


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


def _done(world: World, renter: Renter, step: Step) -> None:
    what, value = step
    if what == "launch":
        renter.launch(PLACES, int(value), most_hours=1.5)
    elif what == "end":
        renter.end(list(world.read().living)[int(value) :: 2])
    elif what == "end_all":
        renter.end_all()
    elif what == "pass":
        world.pass_(value)
    elif what == "set":
        world.set_s = value
    elif what == "kill":
        world.kill_in = int(value)
    elif what == "full":
        world.full_writes = int(value)


def check_lives(number: int, folder: Path) -> None:
    """Check so many random lives."""

    @settings(
        max_examples=number, deadline=None, suppress_health_check=list(HealthCheck), database=None
    )
    @given(LIVES)
    def check(life: Life) -> None:
        with tempfile.TemporaryDirectory(dir=folder) as own:
            live(life, Path(own) / "rented")

    check()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        check_lives(int((sys.argv[1:] or ["1000"])[0]), Path(temporary))
