"""The machines that backends `ssh` and `ec2` measure on, from the user's fleet file.

docs/fleets.md and docs/ec2.md have examples.
"""

import ipaddress
import os
import stat
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Annotated

from pydantic import (
    AfterValidator,
    Field,
    JsonValue,
    PrivateAttr,
    SerializerFunctionWrapHandler,
    model_serializer,
    model_validator,
)

from profilers.record_file import read_record
from warehouse.fields import Name
from warehouse.records import Backend, BadInput, Record, SparseRecord, content_hash

BACKENDS: tuple[Backend, ...] = ("ssh", "ec2")
"""Those whose nodes are machines of the fleet file."""
RENTED: tuple[Backend, ...] = ("ec2",)
"""Those whose nodes cost money."""
VARIABLE = "STEPCAST_FLEET"
FILE = "fleet.yaml"
GP3_USD_PER_GB_MONTH = 0.08
"""What a gp3 volume costs in us-east-1 (Amazon EBS pricing, since December 2020)."""
HOURS_PER_MONTH = 730.0
"""As AWS reckons prices by the month."""


def _ipv4(address: str) -> str:
    return str(ipaddress.IPv4Address(address))


HostName = Annotated[str, Field(pattern=r"^[A-Za-z0-9:_][A-Za-z0-9._:%@+-]{0,254}$")]
"""A name or address that ssh connects to, with a user before an @ at most; never an option."""


class FleetType(Record):
    """A kind of machine: cores that a framework uses inside an operation, and operations at once.

    `memory_bytes` is what a training process may take (None: what the machine has). `gpu`: words of
    the name that the driver gives each of its GPUs (None: not compared); `gpus`: how many it has.
    """

    threads: int = Field(ge=1)
    inter_op_threads: int = Field(default=4, ge=1)
    memory_bytes: int | None = Field(default=None, gt=0)
    gpu: str | None = Field(default=None, min_length=1)
    gpus: int = Field(default=1, ge=1)

    @model_serializer(mode="wrap")
    def _without_default(self, handler: SerializerFunctionWrapHandler) -> dict[str, JsonValue]:
        # Fleets keep the host_id that they had before types could declare GPUs.
        fields: dict[str, JsonValue] = handler(self)
        if self.gpu is None:
            fields.pop("gpu", None)
            fields.pop("gpus", None)
        return fields


class Machine(Record):
    """One machine: `address` is what others reach it by, `host` what ssh connects to."""

    node_type: Name
    address: HostName
    host: HostName | None = None
    port: int = Field(default=22, ge=1, le=65535)


class Volume(Record):
    """The volumes of an instance: their size in all, and their price.

    `device` is the root device of the image, such as /dev/xvda: with it, a gp3 volume of this size
    is asked for; without it, volumes are those of the image or the launch template, and the size
    says how large they may be. `usd_per_gb_month` differs by region.
    """

    gb: int = Field(default=100, ge=1, le=16_384)
    device: str | None = None
    usd_per_gb_month: float = Field(default=GP3_USD_PER_GB_MONTH, ge=0, allow_inf_nan=False)

    @property
    def usd_per_hour(self) -> float:
        """What the volumes of one instance cost an hour."""
        return self.gb * self.usd_per_gb_month / HOURS_PER_MONTH


class Launch(SparseRecord):
    """How EC2 instances are launched; each ends by itself after `most_hours` at the latest.

    A launch template names image, key, network, placement and profile; what is given beside it
    counts instead. Without one, image and a subnet are needed; a key and a security group are made
    for the rental unless `key_name` and `security_groups` name some. Such a group lets its nodes
    reach each other, and `ssh_from` (None: the address that this machine has on the internet)
    reach their ssh.
    `subnets` lists one by availability zone, in the order in which they are asked for instances.
    With `public`, ssh connects to their public addresses; among themselves they use private ones.
    A program on an instance that says nothing for `silence_s` counts as lost.
    """

    SPARSE = (
        *("launch_template", "version", "subnets", "silence_s", "volume", "profile"),
        "ssh_from",
    )

    region: Name
    launch_template: Name | None = None
    version: str = "$Default"
    image: str | None = None
    key_name: str | None = None
    subnet: str | None = None
    subnets: Mapping[Name, str] = {}
    security_groups: tuple[str, ...] = ()
    spot: bool = False
    public: bool = True
    ssh_from: Annotated[str, AfterValidator(_ipv4)] | None = None
    most_hours: float = Field(default=6, gt=0, le=24 * 7, allow_inf_nan=False)
    silence_s: float = Field(default=600.0, gt=0, allow_inf_nan=False)
    volume: Volume = Volume()
    profile: str | None = None

    @model_validator(mode="after")
    def _says_enough(self) -> "Launch":
        if self.subnet and self.subnets:
            raise ValueError("give `subnet`, or `subnets` by zone, not both")
        needed = {"image": self.image, "subnet": self.subnet or self.subnets}
        lacking = [name for name, value in needed.items() if not value]
        if lacking and self.launch_template is None:
            raise ValueError(f"without a launch_template, {', '.join(lacking)} must be given")
        makes_group = self.launch_template is None and not self.security_groups
        if makes_group and not self.public and self.ssh_from is None:
            raise ValueError(
                "with `public: false`, say in `ssh_from` which address nodes see you at"
            )
        return self

    @property
    def places(self) -> Mapping[str | None, str | None]:
        """Subnets by availability zone, in the order in which they are asked (None: whichever)."""
        return dict(self.subnets.items()) if self.subnets else {None: self.subnet}


INSTEAD_OF_WEBHOOK = (
    "write `on_change: [curl, --data-binary, '@-', -H, 'Content-Type: application/json', URL]` "
    "into the fleet file"
)
"""What who had a webhook is told."""


class Fleet(Record):
    """What a fleet file says.

    `on_change` is a command that hears of failures and of node types that have changed
    (`fleet.notice`).
    """

    python: str = "python3"
    ssh: tuple[str, ...] = ()
    interface: Name = "eth0"
    node_types: dict[Name, FleetType] = Field(default_factory=dict)
    machines: tuple[Machine, ...] = ()
    ec2: Launch | None = None
    on_change: tuple[str, ...] = ()
    _host_ids: dict[Backend, str] = PrivateAttr(default_factory=dict)

    @model_validator(mode="before")
    @classmethod
    def _on_change_is_words(cls, fields: object) -> object:
        if isinstance(fields, dict) and "webhook" in fields:
            raise ValueError(f"webhook: nothing posts to it any more; {INSTEAD_OF_WEBHOOK}")
        if isinstance(fields, dict) and not isinstance(fields.get("on_change", ()), list | tuple):
            raise ValueError("on_change: expected a list of words")  # it may have a secret
        return fields

    def host_id(self, backend: Backend) -> str:
        """Hash of what runs must have in common to be comparable: the machines, or the launch."""
        if backend not in self._host_ids:
            parts = self.machines if backend == "ssh" else (self.launch(),)
            kinds = [f"{name} {kind.canonical_json()}" for name, kind in self.node_types.items()]
            facts = [backend, sorted(kinds), [part.canonical_json() for part in parts]]
            self._host_ids[backend] = content_hash(repr(facts))
        return self._host_ids[backend]

    def launch(self) -> Launch:
        """Return how instances are launched.

        Raises:
            BadInput: the file does not say.
        """
        if self.ec2 is None:
            raise BadInput(f"{fleet_file()} has no section `ec2`: region, image, subnet …")
        return self.ec2


def fleet_file() -> Path:
    """Where the fleet file is: $STEPCAST_FLEET, else fleet.yaml in the current folder."""
    return Path(os.environ.get(VARIABLE) or FILE)


def read_fleet() -> Fleet:
    """Return what the fleet file says.

    Raises:
        BadInput: there is none, or it says what nobody understands.
    """
    fleet = find_fleet()
    if fleet is None:
        raise BadInput(
            f"no fleet file {fleet_file()}: it lists your machines, docs/fleets.md says how; "
            f"{VARIABLE} names another place"
        )
    return fleet


def has_fleet() -> bool:
    """Whether there is a fleet file."""
    return fleet_file().is_file()


def find_fleet() -> Fleet | None:
    """Return what the fleet file says; None: there is none.

    Raises:
        BadInput: it says what nobody understands.
    """
    path = os.path.abspath(os.environ.get(VARIABLE) or FILE)
    try:  # thousands of times for a fleet: one look at the disk
        state = os.stat(path)
    except OSError:
        return None
    return _read(path, state.st_mtime_ns) if stat.S_ISREG(state.st_mode) else None


@cache
def _read(path: str, modified_ns: int) -> Fleet:
    return read_record(Path(path), Fleet, "fleet file")
