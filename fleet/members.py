"""The members of the fleet: node types, what is profiled of each, how often, and for how long."""

from collections.abc import Mapping
from datetime import UTC, datetime
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Literal

import yaml
from pydantic import Field, StringConstraints, field_validator

from profilers.clusters import BackendChoice
from profilers.probes import PROBES
from profilers.record_file import validated
from warehouse import limits
from warehouse.documents import read_document
from warehouse.durable_files import write_bytes
from warehouse.fields import Batch, Mbps, Name, Nodes, Pixels, nearest_names
from warehouse.home import FLEET_MEMBERS
from warehouse.records import BadInput, Record

Minutes = Annotated[float, Field(gt=0, le=limits.SECONDS / 60, allow_inf_nan=False)]
Every = Literal["hour", "night", "week", "month"]
WATCH = "watch"
"""The probe that tells whether a type still is what its profiles say."""


class Member(Record):
    """A node type of the fleet.

    Attributes:
        node_type: its name.
        probes: that profile it.
        every: how often: each hour, each night, on Sunday nights, on the first of a month.
        at: when nights begin, UTC.
        max_minutes: of machine time that one visit may take.
        networks: that are profiled on it.
        image_size: side of their images, pixels; None: the smallest that each takes, but 32.
        batch_size: images per step.
        workers: that train together at most: as many nodes talk over its links.
        link_mbps: speed of its links; None: the type's own.
        watched: whether it is watched for drift each night.
        paused: whether it is left alone until it is added again.
        backend: where its nodes are.
        max_usd: what one visit may cost at most where its nodes are rented; None: they are not.
        added_at: when it became a member, UTC.
    """

    node_type: Name
    probes: tuple[str, ...] = Field(min_length=1, max_length=limits.LISTED)
    every: Every = "week"
    at: Annotated[str, StringConstraints(pattern=r"^([01]\d|2[0-3]):[0-5]\d$")] = "02:00"
    max_minutes: Minutes = 20
    networks: tuple[str, ...] = Field(default=("small_cnn",), min_length=1)
    image_size: Pixels | None = None
    batch_size: Batch = 8
    workers: Nodes = 2
    link_mbps: Mbps | None = None
    watched: bool = True
    paused: bool = False
    backend: BackendChoice = "auto"
    max_usd: float | None = Field(default=None, gt=0, le=limits.USD, allow_inf_nan=False)
    added_at: datetime

    @field_validator("probes")
    @classmethod
    def _probes_are_known(cls, probes: tuple[str, ...]) -> tuple[str, ...]:
        for name in probes:
            if name not in PROBES or name == WATCH:
                known = [probe for probe in PROBES if probe != WATCH]
                near = get_close_matches(name, known, n=1, cutoff=0.5)
                hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}"
                raise ValueError(f"no probe {name!r} of the fleet; {hint}")
        return tuple(name for name in PROBES if name in probes)

    @field_validator("networks")
    @classmethod
    def _each_network_once(cls, networks: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(dict.fromkeys(networks))


def read_members(home: Path) -> dict[str, Member]:
    """Return the members of a home's fleet by node type, in the order in which they were added.

    Raises:
        BadInput: the file is not what this code writes.
    """
    path = home / FLEET_MEMBERS
    if not path.exists():
        return {}
    listed = read_document(path, "members of the fleet")
    if not isinstance(listed, Mapping):
        raise BadInput(f"{path}: expected a mapping of node types, found {listed!r:.60}")
    members = {}
    for name, fields in listed.items():
        if not isinstance(fields, Mapping):
            raise BadInput(f"{path}: {name}: expected a mapping of fields, found {fields!r:.60}")
        fields = {**fields, "node_type": name}
        members[str(name)] = validated(Member, fields, f"{path}: ", (str(name),))
    return members


def write_members(home: Path, members: Mapping[str, Member]) -> None:
    """Write the members of a home's fleet, all or none of them."""
    home.mkdir(parents=True, exist_ok=True)
    listed = {
        name: member.model_dump(mode="json", exclude={"node_type"}, exclude_defaults=True)
        for name, member in members.items()
    }
    text = yaml.safe_dump(listed, sort_keys=False, allow_unicode=True)
    write_bytes(home / FLEET_MEMBERS, text.encode(), durable=True)


def add(home: Path, member: Member) -> bool:
    """Make a node type a member, or change what is done of it; tell whether it is new."""
    members = read_members(home)
    existing = members.get(member.node_type)
    if existing is not None:
        member = member.model_copy(update={"added_at": existing.added_at})
    write_members(home, {**members, member.node_type: member})
    return existing is None


def change(home: Path, node_type: str, *, paused: bool) -> Member:
    """Pause a member, or let it go on, and return it.

    Raises:
        BadInput: there is no such member.
    """
    members = read_members(home)
    changed = member_of(members, node_type).model_copy(update={"paused": paused})
    write_members(home, {**members, node_type: changed})
    return changed


def remove_member(home: Path, node_type: str) -> None:
    """Take a node type out of the fleet; what was measured of it stays.

    Raises:
        BadInput: there is no such member.
    """
    members = read_members(home)
    member_of(members, node_type)
    write_members(home, {name: member for name, member in members.items() if name != node_type})


def member_of(members: Mapping[str, Member], node_type: str) -> Member:
    """Return the member of a name.

    Raises:
        BadInput: there is none.
    """
    if node_type in members:
        return members[node_type]
    near = nearest_names(node_type, members, 1)
    known = f"did you mean {near[0]}?" if near else f"its members are {', '.join(members)}"
    if not members:
        known = "`stepcast fleet add` adds one"
    raise BadInput(f"{node_type!r} is no member of the fleet; {known}")


def now() -> datetime:
    """Return the time of the wall clock, UTC: by which nights and months are counted."""
    return datetime.now(UTC)
