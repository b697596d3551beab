"""Members of a fleet on paper, and the runs of their visits."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from fleet.members import Member
from fleet.schedule import Visits, visits, watches
from profilers.clusters import host_id
from tests.synthetic import PROFILING, landed
from warehouse.records import Run

NODE_TYPE = "emu.native.c25"
NOW = datetime(2030, 1, 16, 12, tzinfo=UTC)
"""A Wednesday: the week began on Sunday, 13 January, the night at 2 o'clock."""
SUNDAY = datetime(2030, 1, 13, 2, tzinfo=UTC)
TONIGHT = datetime(2030, 1, 16, 2, tzinfo=UTC)


def member(node_type: str = NODE_TYPE, **changes: object) -> Member:
    """Return a member on loopback that probes which run nothing can profile."""
    fields = {
        "node_type": node_type,
        "probes": PROFILING,
        "backend": "loopback",
        "added_at": datetime(2030, 1, 1, tzinfo=UTC),
    }
    return Member.model_validate(fields | changes)


def visited(
    of: Member,
    began: datetime,
    repeat: int = 1,
    *probes: str,
    each_s: float = 60,
    **changes: object,
) -> list[Run]:
    """Return the runs of a visit, one after the other, of all of its probes unless named."""
    return list(_runs(visits(of, []), began, repeat, probes or of.probes, each_s, changes))


def watched(of: Member, began: datetime, repeat: int = 1, **changes: object) -> list[Run]:
    """Return the run of a watch."""
    return list(_runs(watches(of, []), began, repeat, ("watch",), 60, changes))


def _runs(
    planned: Visits,
    began: datetime,
    repeat: int,
    probes: tuple[str, ...],
    each_s: float,
    changes: dict[str, object],
) -> Iterator[Run]:
    for need in planned.round_.needs:
        if need.probe not in probes:
            continue
        ended = began + timedelta(seconds=each_s)
        fields: dict[str, object] = {
            "run_id": f"{need.probe}-{of_study(planned)}-{began:%m%dT%H%M%S}",
            "study": of_study(planned),
            "backend": "loopback",
            "host_id": host_id("loopback"),
            "started_at": began,
            "ended_at": ended,
        }
        yield landed(need, repeat, **(fields | changes))
        began = ended


def of_study(planned: Visits) -> str:
    """Return the name of the study whose rounds are visits."""
    return planned.round_.study.name
