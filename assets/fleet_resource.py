"""What assets of the fleet ask Dagster for: its members, and a turn to measure one."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import datetime
from pathlib import Path

from dagster import ConfigurableResource, InitResourceContext
from pydantic import PrivateAttr

from assets.resources import WarehouseResource, own_turn
from fleet.budget import Budget
from fleet.calendar import beginning
from fleet.members import Member, member_of, now, read_members
from fleet.visits import Visits, spent_s, visits, watches
from studies.progress import Progress
from studies.renting import renting
from warehouse.landing import landed_runs


class FleetResource(ConfigurableResource):
    """The fleet of a home. Runs that measure take turns with those of studies."""

    warehouse: WarehouseResource
    _began: datetime = PrivateAttr()
    _run_id: str = PrivateAttr(default="")

    @contextmanager
    def yield_for_execution(self, context: InitResourceContext) -> Iterator["FleetResource"]:
        """Wait for this run's turn and keep it until the run ends."""
        with own_turn(context, Path(self.warehouse.home)):
            self._began = now()
            self._run_id = context.run.run_id if context.run is not None else ""
            yield self

    def member(self, node_type: str) -> Member:
        """Return a member.

        Raises:
            BadInput: there is none of this name.
        """
        return member_of(read_members(Path(self.warehouse.home)), node_type)

    def visits(self, node_type: str) -> Visits:
        """Return the visits that profile a member, with all that has landed."""
        return visits(self.member(node_type), landed_runs(self.warehouse.landing))

    def watches(self, node_type: str) -> Visits:
        """Return the visits that watch a member, with all that has landed."""
        return watches(self.member(node_type), landed_runs(self.warehouse.landing))

    def renting(self, found: Visits, progress: Progress) -> AbstractContextManager[None]:
        """Let a visit rent its nodes, where they are rented, up to what its member says."""
        home, member = Path(self.warehouse.home), found.member
        account = f"{self._run_id}-{member.node_type}"
        return renting(home, found.round_.backend, member.max_usd, account, progress.say)

    def budget(self, found: Visits) -> Budget:
        """Return the time that a visit which begins now may take.

        What was measured of it before it was interrupted counts, if that was in the same turn.
        """
        member = found.member
        since = beginning(found.every, member.at, self._began)
        return Budget(60 * member.max_minutes, spent_s(found.round_.runs, since))
