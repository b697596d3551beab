"""A cluster of EC2 instances, rented for it and ended with it; programs run over ssh.

What is rented is written down before (`profilers.renting`), fits into what the command may cost,
and ends by itself. Host keys are those that an instance has printed to its console.

An instance comes up once its host keys are pinned and its end is seen to be set.
"""

import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import ClassVar, TypeVar

from profilers.clusters import owner
from profilers.clusters.base import Node
from profilers.clusters.fleet import Machine
from profilers.clusters.node_types import gpus
from profilers.clusters.ssh import SshCluster
from profilers.nodes.notices import watch_for_notice
from profilers.renting import aws, reaper
from profilers.renting.access import close_accesses, open_access
from profilers.renting.aws import Ec2
from profilers.renting.book import Book, LaunchIntent
from profilers.renting.cap import BOOT_HOURS, hours_for, required_allowance
from profilers.renting.renter import (
    END_S,
    InstanceStatus,
    LaunchPlace,
    Provider,
    Renter,
    hourly_usd,
    launch_places,
)
from profilers.steady.hostlock import host_lock
from warehouse.records import Backend, Market, NodeGroup, ProbeFailed, Role

VARIABLE = "STEPCAST_SHUTDOWN"
"""Variable of a machine: the file that says when it shuts down, where it has no systemd."""
SHUTDOWN = f'cat "${{{VARIABLE}:-/run/systemd/shutdown/scheduled}}" && date +%s'
"""Shell: when systemd will shut the machine down (microseconds, and how), and its time of now."""
KEYS_S = 420.0
"""How long host keys are waited for: types on Xen tell their console some minutes late."""
RUNNING_S = 300.0
"""How long instances may take until they run."""
_EVERY_S = 5.0
_SLACK_S = 120.0
T = TypeVar("T")


def _polled(ask: Callable[[], T | None], within_s: float, what: str) -> T:
    """Ask again and again until there is an answer; what goes wrong meanwhile is told at the end.

    Raises:
        ProbeFailed: there is none in time; the message begins with `what`.
    """
    deadline_s, why = time.monotonic() + within_s, ""
    while True:
        try:
            if (answer := ask()) is not None:
                return answer
        except ProbeFailed as error:
            why = f": {error}"
        if time.monotonic() > deadline_s:
            raise ProbeFailed(f"{what} after {within_s:g} s{why}")
        time.sleep(_EVERY_S)


def wait_until_running(
    provider: Provider, ids: Sequence[str], within_s: float = RUNNING_S
) -> list[InstanceStatus]:
    """Wait until instances run and have addresses; return them, in the order of their ids.

    Raises:
        ProbeFailed: one of them ended, or they do not come up in time.
    """

    def settled() -> list[InstanceStatus] | None:
        seen = provider.seen(ids)
        if any(instance.state in ("ending", "ended") for instance in seen.values()):
            return list(seen.values())
        up = [id_ for id_ in ids if id_ in seen and seen[id_].state == "running"]
        is_up = len(up) == len(ids) and all(seen[id_].private for id_ in up)
        return [seen[id_] for id_ in ids] if is_up else None

    instances = _polled(settled, within_s, f"instances {', '.join(ids)} do not run")
    if any(instance.state != "running" for instance in instances):
        states = ", ".join(f"{instance.id} is {instance.state}" for instance in instances)
        raise ProbeFailed(f"instances ended while they came up: {states}")
    return instances


@dataclass(frozen=True)
class Boot:
    """An instance that was launched.

    Attributes:
        id: its name at its provider.
        intent: its launch.
        known_hosts: the file that its host keys are pinned in.
        usd_per_hour: what it is expected to cost, with its volumes.
    """

    id: str
    intent: LaunchIntent
    known_hosts: Path
    usd_per_hour: float

    @property
    def ssh_options(self) -> list[str]:
        """Words of ssh that let it talk to this instance alone, whatever its address was before."""
        options = {
            "StrictHostKeyChecking": "yes",
            "UserKnownHostsFile": str(self.known_hosts),
            "GlobalKnownHostsFile": "/dev/null",
            "HostKeyAlias": self.id,
        }
        return [word for key, value in options.items() for word in ("-o", f"{key}={value}")]

    def pin(self, console: Callable[[str], str], within_s: float = KEYS_S) -> None:
        """Wait until the console, read by the instance's name, has its host keys, and pin them.

        Raises:
            ProbeFailed: it has none; nothing may be said to it then.
        """
        keys = _polled(
            lambda: aws.host_keys(console(self.id), self.intent.token) or None,
            within_s,
            f"{self.id} has not printed its host keys to its console (does its image run "
            "user data, cloud-init?)",
        )
        self.known_hosts.write_text("".join(f"{self.id} {key}\n" for key in keys))

    def check_shutdown(self, told: bytes) -> None:
        """Refuse an instance that would not end by itself in time.

        Args:
            told: what `SHUTDOWN` printed there.

        Raises:
            ProbeFailed: no end is set, or it is too late.
        """
        lines = dict(
            line.partition("=")[::2] for line in told.decode(errors="replace").splitlines()
        )
        at_us, now_s = lines.get("USEC", ""), next((key for key in lines if key.isdecimal()), "")
        if not (at_us.isdecimal() and now_s and lines.get("MODE") in ("poweroff", "halt")):
            raise ProbeFailed(
                f"{self.id} has no shutdown set, so nothing bounds what it costs; it is ended. Its "
                f"image must run user data (cloud-init), found {told[:60]!r}"
            )
        left_s = int(at_us) / 1e6 - int(now_s)
        if left_s > 60 * aws.minutes(self.intent) + _SLACK_S:
            raise ProbeFailed(
                f"{self.id} shuts itself down in {left_s / 60:.0f} min, and "
                f"{aws.minutes(self.intent)} min were reckoned with; it is ended"
            )


def _remember_left(end: Callable[[], tuple[str, ...]]) -> None:
    """End what was rented; where something is left, this owner stays known to be dead."""
    try:
        left: tuple[str, ...] | None = None
        left = end()
    finally:
        if left != ():
            owner.keep_lock()


_SSH_S = 240.0


class Ec2Cluster(SshCluster):
    """Instances of the wanted types, as the fleet file's section `ec2` says.

    Raises:
        BadInput: no fleet file, or it has no section `ec2`; nobody said what they may cost, or
            knows their price.
        BudgetExceeded: they may cost more than is allowed, or would have to end too soon.
        ProbeFailed: EC2 refuses (credentials, quota, capacity), or an instance does not come up.
    """

    backend: ClassVar[Backend] = "ec2"

    def __init__(self, groups: Sequence[NodeGroup], link_mbps: float | None) -> None:
        super().__init__(groups, link_mbps)
        self._launch, self._allowance = self._fleet.launch(), required_allowance()
        self.silence_s = self._launch.silence_s
        self._provider, self._book = Ec2(self._launch.region, self._launch), Book()
        self._renter = Renter(
            provider=self._provider,
            book=self._book,
            owner=self._prefix,
            home_token=owner.token(),
            cap_usd=self._allowance.cap_usd,
            account=self._allowance.account,
            say=self._allowance.say,
        )
        self._boots: dict[str, Boot] = {}
        """Instances by the address that others reach them by."""
        self._rented: list[str] = []
        """Ids of all that runs have had; of those that failed, `lost` asks."""
        self._notice: str | None = None
        self._unsettled = False
        self._key = list[str]()
        self._held = ExitStack()

    def up(self) -> None:
        """Wait for the host lock, end what dead owners left, make ready for ssh, launch."""
        self._held.enter_context(host_lock(self._allowance.say))
        known = {self._launch.region: self._provider}
        reaper.settle_dead(
            self._book, lambda region: known.get(region) or Ec2(region), self._allowance.say
        )
        self._provider.how, self._key = open_access(
            self._provider, self._book, self._launch, self._prefix, owner.token(), owner.folder()
        )
        super().up()

    def facts(self) -> Mapping[str, str | int | float | bool | None]:
        """Return also where and on which market its instances are rented: what they cost."""
        return {**super().facts(), "region": self._launch.region, "market": self._market(None)}

    def usd_per_hour(self) -> float | None:
        """Return what the instances that are up are expected to cost an hour, volumes included."""
        return sum(boot.usd_per_hour for boot in self._boots.values())

    def lost(self) -> str | None:
        """Return which notice was given, or which instance has ended."""
        if self._notice is not None or not self._rented:
            return self._notice
        with suppress(ProbeFailed):
            seen = self._provider.seen(self._rented).values()
            ended = [instance.id for instance in seen if instance.state in ("ending", "ended")]
            if ended:
                return f"{', '.join(ended)} ended: its hours were over, or EC2 took it back"
        return None

    def remove(self, node: Node) -> None:
        """Kill what runs on the instance, and end it."""
        boot = self._boots.pop(node.address, None)
        try:
            super().remove(node)
        finally:
            if boot is not None:
                self._end([boot.id])

    def down(self) -> None:
        """End all instances, those of a launch that was interrupted too, then key and group."""
        with self._held:
            try:
                super().down()
            finally:
                try:
                    self._settle()
                finally:
                    accesses, say = self._book.read().accesses, self._allowance.say
                    names = [name for name in accesses if name == self._prefix]
                    ended = partial(close_accesses, self._provider, self._book, names, say)
                    _remember_left(partial(ended, within_s=END_S))

    def _end(self, ids: Collection[str]) -> None:
        self._rented = [id_ for id_ in self._rented if id_ not in ids]
        _remember_left(partial(self._renter.end, ids))

    def _settle(self) -> None:
        """End whatever this cluster has launched, and go on to ask where that is interrupted."""
        if not self._unsettled:
            return
        self._unsettled, self._boots, self._rented = False, {}, []
        launches = self._book.read().of(self._allowance.account).intents.values()
        own_launches = [launch for launch in launches if launch.owner == self._prefix]
        try:
            _remember_left(partial(self._renter.settle, own_launches))
        except BaseException:
            tokens = {intent.token for intent in own_launches}
            living = self._book.read().living.items()
            with suppress(ProbeFailed):
                self._provider.terminate([id_ for id_, intent in living if intent.token in tokens])
            raise

    def _market(self, spot: bool | None) -> Market:
        return "spot" if (self._launch.spot if spot is None else spot) else "on_demand"

    def _taken(self, groups: Sequence[NodeGroup], spot: bool | None = None) -> list[Machine]:
        """Launch an instance for each group's one node."""
        market = self._market(spot)
        counts = Counter(group.node_type for group in groups)
        places = {
            name: launch_places(name, market, self._launch, self._allowance) for name in counts
        }
        usd = sum(hourly_usd(places[name]) * counts[name] for name in counts)
        cap_usd, most_hours = self._allowance.cap_usd, self._launch.most_hours
        if self.most_s is not None:
            most_hours = min(most_hours, self.most_s / 3600 + BOOT_HOURS)
        hours = hours_for(cap_usd, self._renter.bill, usd, self.expected_s, most_hours)
        launched: dict[str, list[Machine]] = {}
        before = {*self._boots}
        try:
            for name, number in counts.items():
                launched[name] = self._launched(places[name], number, hours)
        except BaseException:
            self._end([self._boots.pop(address).id for address in {*self._boots} - before])
            raise
        return [launched[group.node_type].pop() for group in groups]

    def _launched(self, places: Sequence[LaunchPlace], number: int, hours: float) -> list[Machine]:
        self._unsettled = True
        try:
            ids = self._renter.launch(places, number, hours)
        finally:
            # Whoever took this cluster down meanwhile did not see what came of it.
            self._unsettled = True
        self._rented += ids
        intent = self._book.read().living[ids[0]]
        rate = self._allowance.rate(intent.node_type, intent.market)
        usd_per_hour = rate.usd_per_hour + intent.volume_usd_per_hour
        try:
            seen = wait_until_running(self._provider, ids)
            self._provider.check_volumes(ids)
        except BaseException:
            self._end(ids)
            raise
        machines = []
        for instance in seen:
            assert instance.private is not None
            known_hosts = owner.folder() / f"known_hosts-{instance.id}"
            self._boots[instance.private] = Boot(instance.id, intent, known_hosts, usd_per_hour)
            host = instance.public if self._launch.public else None
            machines.append(
                Machine(node_type=intent.node_type, address=instance.private, host=host)
            )
        return machines

    def _connection(self, node: Node) -> list[str]:
        boot = self._boots[node.address]
        ssh, *words = super()._connection(node)
        return [ssh, *boot.ssh_options, *self._key, *words]

    def _prepare(self, node: Node) -> None:
        boot = self._boots[node.address]
        boot.pin(self._provider.console)
        _polled(lambda: self._over(node, "true"), _SSH_S, f"no sshd answers on {boot.id}")
        boot.check_shutdown(self._over(node, SHUTDOWN))
        super()._prepare(node)

    def _bring_up(
        self, plan: Sequence[tuple[Role, int, NodeGroup]], taken: Sequence[Machine]
    ) -> tuple[Node, ...]:
        """Make nodes of instances, and look out for notices to those of the spot market."""
        nodes = super()._bring_up(plan, taken)
        for node in nodes if self.ends_on_notice else ():
            boot = self._boots[node.address]
            if boot.intent.market == "spot":
                # Not where they are prepared: programs end with the thread that started them.
                words = [*self.python(node), "-m", "profilers.nodes.notices"]
                watch_for_notice(self.popen(node, words), partial(self._noticed, boot.id))
        return nodes

    def _noticed(self, id_: str, what: str) -> None:
        """End what runs, once a node is about to be taken away: its run fails and says why."""
        self._notice = f"EC2 takes {id_} back: {what}"
        # Not killed: that would count as a lack of memory there.
        for _, process in list(self._processes):
            process.terminate()

    def _remedy(self, node: Node) -> str:
        """Return what to do: the instance is ended, and its hardware is what AWS says it is."""
        if gpus(node.group.node_type):
            return (
                "it is ended. Its image has no driver of NVIDIA, or one that does not see them: "
                "deploy/image.yaml makes one that does (docs/ec2.md)"
            )
        return f"it is ended; {super()._remedy(node)}"
