"""Instances of the stand-in EC2 that are there: hosts that run user data and end when they said.

`python -m tests.profilers.renting.instances COMMAND …` runs a command that finds them as AWS, in a
home that is the stand-in's alone.
"""

import base64
import fcntl
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, RLock, Thread
from typing import Any

import yaml

from profilers.clusters.fleet import VARIABLE
from studies.price_collection import collect
from studies.renting import rates
from tests.profilers.renting.cloud import REGION, Asked, Cloud
from tests.profilers.renting.hosts import Host, Hosts
from tests.profilers.renting.served import serve
from warehouse.home import CHECKOUT, home
from warehouse.records import BadInput, StepcastError
from warehouse.warehouse import Warehouse

NODE_TYPE = "m5.large"
HOME = CHECKOUT / ".stepcast" / "ec2-stand-in"
_LOOK_S = 0.2


@dataclass
class Instances:
    """The instances of a cloud.

    Attributes:
        cloud: that launches and ends them.
        hosts: that they are.
        alive: those that live, by id.
    """

    cloud: Cloud
    hosts: Hosts
    alive: dict[str, Host] = field(default_factory=dict)
    _lock: RLock = field(default_factory=RLock)

    def launched(self, ids: tuple[str, ...], request: Asked) -> None:
        """Start the instances of a launch, and let each run its user data."""
        reservations = self.cloud.direct.describe_instances(InstanceIds=list(ids))["Reservations"]
        for instance in (instance for group in reservations for instance in group["Instances"]):
            id_ = instance["InstanceId"]
            user_data = base64.b64decode(request["UserData"]).decode()
            host = self.hosts.started(id_, user_data, self.cloud.public_key(instance["KeyName"]))
            for name in ("PrivateIpAddress", "PublicIpAddress"):
                if name in instance:
                    self.cloud.addresses[instance[name]] = host.address
            self.cloud.consoles[id_] = (host.folder / "console").read_text()
            with self._lock:
                self.alive[id_] = host

    def ended(self, ids: list[str]) -> None:
        """End instances."""
        with self._lock:
            for id_ in ids:
                if host := self.alive.pop(id_, None):
                    self.hosts.end(host)

    def look(self, ended: Event) -> None:
        """End what shuts itself down, until told to end."""
        while not ended.wait(_LOOK_S):
            with self._lock:
                over = [id_ for id_, host in self.alive.items() if host.is_over(time.time())]
            if over:
                self.cloud.direct.terminate_instances(InstanceIds=over)
                self.ended(over)


@contextmanager
def instances(folder: Path, cloud: Cloud) -> Iterator[tuple[Instances, Path]]:
    """Let a cloud's launches bring instances; yield them, and a fleet file that rents them."""
    hosts = Hosts(folder)
    rented, over = Instances(cloud, hosts), Event()
    agent = Thread(target=rented.look, args=(over,))
    try:
        hosts.up()
        cloud.on_launch, cloud.on_end, cloud.room = rented.launched, rented.ended, hosts.room
        agent.start()
        yield rented, _fleet(folder, cloud, hosts)
    finally:
        over.set()
        if agent.is_alive():
            agent.join()
        rented.ended(list(rented.alive))
        hosts.down()


def _fleet(folder: Path, cloud: Cloud, hosts: Hosts) -> Path:
    launch: dict[str, Any] = {
        "region": REGION,
        "image": "ami-12345678",
        "subnets": dict(cloud.subnets()),
        "ssh_from": "127.0.0.1",
        "most_hours": 1,
        "volume": {"gb": 8, "device": "/dev/sda1"},
    }
    content = {
        "python": sys.executable,
        "ssh": hosts.ssh,
        "interface": "eth0",
        "node_types": {NODE_TYPE: {"threads": 1}},
        "ec2": launch,
    }
    file = folder / "fleet.yaml"
    file.write_text(yaml.safe_dump(content))
    return file


def main(command: list[str]) -> int:
    """Run a command that finds the stand-in where it looks for AWS; return its exit code."""
    with _own_folder() as folder, serve() as (cloud, environment):
        os.environ.update(environment)
        _named_alike(cloud)
        with instances(folder, cloud) as (rented, fleet):
            os.environ[VARIABLE] = str(fleet)
            _see_prices()
            code = _ran(command)
            left = sorted(rented.alive)
    if left:
        sys.stderr.write(f"the stand-in ended what lived on: {', '.join(left)}\n")
    if cloud.launched:
        sys.stderr.write(
            f"EC2 was a stand-in on this machine, and nobody pays for it; its home is {home()}\n"
        )
    return code or bool(left)


@contextmanager
def _own_folder() -> Iterator[Path]:
    """Choose the home of this process and of its commands; yield the stand-in's folder in it.

    That is `STEPCAST_HOME`, else one of its own: what it rents is not mixed with what AWS bills.

    Raises:
        BadInput: it is somebody's home already, or another stand-in is there.
    """
    os.environ.setdefault("STEPCAST_HOME", str(HOME))
    mark = home() / "stand-in.lock"
    if home().is_dir() and any(home().iterdir()) and not mark.exists():
        raise BadInput(f"{home()} is no home of the stand-in's; let STEPCAST_HOME name a new one")
    mark.parent.mkdir(parents=True, exist_ok=True)
    with mark.open("a") as lock, tempfile.TemporaryDirectory(prefix="stepcast-ec2-") as folder:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise BadInput(f"another stand-in is at work in {home()}; wait until it ends") from None
        yield Path(folder)


def _named_alike(cloud: Cloud) -> None:
    """Let subnets have the same names each time, and instances always others.

    Runs on them are then of one fleet, so what was interrupted is resumed.
    """
    seeds = (1, secrets.randbits(32))
    for seed in seeds:
        url = "http://{}:{}/moto-api/seed?a={}".format(*cloud.moto, seed)
        with urllib.request.urlopen(urllib.request.Request(url, method="POST")):
            cloud.subnets()


def _see_prices() -> None:
    """Collect the prices of a new home, as `stepcast prices collect` does."""
    history = Warehouse(home())
    if not rates(history, REGION, [NODE_TYPE]):
        collect(history, [REGION], [NODE_TYPE])


def _ran(command: list[str]) -> int:
    """Run a command to its end; what would end this process is the command's to obey."""
    with subprocess.Popen(command) as program:
        signal.signal(signal.SIGINT, lambda *_: None)  # a terminal tells both
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, lambda got, _: program.send_signal(got))
        code = program.wait()
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    if os.geteuid() != 0:
        sys.exit("the stand-in's instances need root")
    if not shutil.which("sshd", path="/usr/sbin:/usr/bin"):
        sys.exit("the stand-in's instances need sshd: apt-get install openssh-server")
    try:
        sys.exit(main(sys.argv[1:]))
    except StepcastError as error:
        sys.exit(f"{error}")
