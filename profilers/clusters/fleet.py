"""The machines that backends `ssh` and `ec2` measure on, from the user's fleet file.

docs/fleets.md has an example.
"""

import os
from functools import cache
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, Field

from profilers.record_file import read_record
from warehouse.names import checked_name
from warehouse.records import Backend, BadInput, Record, content_hash

BACKENDS: tuple[Backend, ...] = ("ssh", "ec2")
"""Those whose nodes are machines of the fleet file."""
VARIABLE = "STEPCAST_FLEET"
FILE = "fleet.yaml"


def _name(name: str) -> str:
    try:
        return checked_name(name, "name")
    except BadInput as error:
        raise ValueError(str(error)) from None


Name = Annotated[str, AfterValidator(_name)]
"""What becomes part of a tag, a path or a command."""
HostName = Annotated[str, Field(pattern=r"^[A-Za-z0-9:_][A-Za-z0-9._:%@+-]{0,254}$")]
"""A name or address that ssh connects to, with a user before an @ at most; never an option."""


class FleetType(Record):
    """A kind of machine: cores that a framework uses inside an operation, and operations at once.

    `memory_bytes` is what a training process may take (None: what the machine has).
    """

    threads: int = Field(ge=1)
    inter_op_threads: int = Field(default=4, ge=1)
    memory_bytes: int | None = Field(default=None, gt=0)


class Machine(Record):
    """One machine: `address` is what others reach it by, `host` what ssh connects to."""

    node_type: Name
    address: HostName
    host: HostName | None = None
    port: int = Field(default=22, ge=1, le=65535)


class Launch(Record):
    """How EC2 instances are launched; each ends by itself after `most_hours`, whatever happens.

    With `public`, ssh connects to their public addresses; among themselves they use private ones.
    """

    region: str
    image: str
    key_name: str
    subnet: str
    security_groups: tuple[str, ...] = Field(min_length=1)
    spot: bool = False
    public: bool = True
    most_hours: float = Field(default=6, gt=0)


class Fleet(Record):
    """What a fleet file says."""

    python: str = "python3"
    ssh: tuple[str, ...] = ()
    interface: Name = "eth0"
    node_types: dict[Name, FleetType] = Field(min_length=1)
    machines: tuple[Machine, ...] = ()
    ec2: Launch | None = None

    def host_id(self, backend: Backend) -> str:
        """Hash of what runs must have in common to be comparable: the machines, or the launch."""
        parts = self.machines if backend == "ssh" else (self.launch(),)
        kinds = [f"{name} {kind.canonical_json()}" for name, kind in self.node_types.items()]
        return content_hash(repr([backend, sorted(kinds), [one.canonical_json() for one in parts]]))

    def launch(self) -> Launch:
        """Return how instances are launched.

        Raises:
            BadInput: the file does not say.
        """
        if self.ec2 is None:
            raise BadInput(
                f"{fleet_file()} has no section `ec2`: region, image, key_name, subnet …"
            )
        return self.ec2


def fleet_file() -> Path:
    """Where the fleet file is: $STEPCAST_FLEET, else fleet.yaml in the current folder."""
    return Path(os.environ.get(VARIABLE) or FILE)


def fleet() -> Fleet:
    """Return what the fleet file says.

    Raises:
        BadInput: there is none, or it says what nobody understands.
    """
    path = fleet_file()
    if not path.is_file():
        raise BadInput(
            f"no fleet file {path}: it lists your machines, docs/fleets.md says how; "
            f"{VARIABLE} names another place"
        )
    return _read(path.absolute(), path.stat().st_mtime_ns)


def has_fleet() -> bool:
    """Whether there is a fleet file."""
    return fleet_file().is_file()


@cache
def _read(path: Path, modified_ns: int) -> Fleet:
    return read_record(path, Fleet, "fleet file")
