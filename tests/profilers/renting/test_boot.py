"""An instance that comes up: nothing is said to it before its keys are known and its end is set."""

from pathlib import Path

import pytest

from profilers.clusters import ec2
from profilers.clusters.ec2 import Boot, wait_until_running
from profilers.renting import aws
from profilers.renting.renter import InstanceStatus
from tests.profilers.clusters.made_up import World
from tests.profilers.renting.intents import intent
from warehouse.records import ProbeFailed

KEY = f"ssh-ed25519 {'A' * 68}"
INTENT = intent(owner="stepcast-1-2-0", usd_per_hour=0.1, hours=2.0)


@pytest.fixture
def one(tmp_path: Path) -> Boot:
    return Boot("i-1", INTENT, tmp_path / "known_hosts", 0.1)


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ec2, "_EVERY_S", 0.0)


class Late:
    """A console that answers after a while, and is refused once."""

    def __init__(self) -> None:
        self.answers = ["", None, f"login\n{aws.MARKER} t0 {KEY}\n"]

    def console(self, id_: str) -> str:
        answer = self.answers.pop(0)
        if answer is None:
            raise ProbeFailed("throttled")
        return answer


def test_keys_are_waited_for_and_pinned_by_the_name_of_the_instance(one: Boot) -> None:
    one.pin(Late().console)
    assert one.known_hosts.read_text() == f"i-1 {KEY}\n"
    assert "StrictHostKeyChecking=yes" in one.ssh_options
    assert "HostKeyAlias=i-1" in one.ssh_options


def test_without_keys_nothing_is_pinned(one: Boot) -> None:
    world = World(console_says="kernel panic")
    with pytest.raises(ProbeFailed, match="i-1 has not printed its host keys"):
        one.pin(world.console, within_s=-1.0)
    assert not one.known_hosts.exists()


def told(in_minutes: float, mode: str = "poweroff") -> bytes:
    now_s = 1_790_000_000
    at_us = round((now_s + 60 * in_minutes) * 1e6)
    return f"USEC={at_us}\nWARN_WALL=1\nMODE={mode}\n{now_s}\n".encode()


@pytest.mark.parametrize("answer", [told(120), told(1), told(60, "halt")])
def test_an_end_in_time_passes(answer: bytes, one: Boot) -> None:
    one.check_shutdown(answer)


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (b"", "no shutdown set"),
        (b"1790000000\n", "no shutdown set"),
        (told(60, "reboot"), "no shutdown set"),
        (b"USEC=soon\nMODE=poweroff\n1790000000\n", "no shutdown set"),
        (told(123), "shuts itself down in 123 min, and 120 min were reckoned with"),
    ],
)
def test_no_end_or_a_late_one_is_refused(answer: bytes, why: str, one: Boot) -> None:
    with pytest.raises(ProbeFailed, match=why):
        one.check_shutdown(answer)


class Coming:
    """A provider that does not know an instance at first, and then sees it come up, or not."""

    def __init__(self, *states: str) -> None:
        self.states = list(states)

    def seen(self, ids: object) -> dict[str, InstanceStatus]:
        state = self.states.pop(0)
        if state == "unknown":
            return {}
        address = None if state == "bare" else "10.0.0.1"
        named = "running" if state == "bare" else state
        return {"i-1": InstanceStatus("i-1", named, private=address)}  # type: ignore[arg-type]


def test_instances_are_waited_for_until_they_have_addresses() -> None:
    provider = Coming("unknown", "pending", "bare", "running")
    (seen,) = wait_until_running(provider, ["i-1"])  # type: ignore[arg-type]
    assert seen.private == "10.0.0.1"
    assert provider.states == []


@pytest.mark.parametrize(
    ("states", "why"),
    [
        (("pending", "ended"), "ended while they came up"),
        (("unknown",), "instances i-1 do not run after -1 s"),
    ],
)
def test_instances_that_do_not_come_up_are_told_of(states: tuple[str, ...], why: str) -> None:
    with pytest.raises(ProbeFailed, match=why):
        wait_until_running(Coming(*states), ["i-1"], -1.0 if len(states) == 1 else 60.0)  # type: ignore[arg-type]
