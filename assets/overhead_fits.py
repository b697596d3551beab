"""Lines of overhead against size, as the warehouse keeps fits."""

from collections.abc import Sequence
from datetime import UTC, datetime
from hashlib import sha256

from forecasting.captured import CapturedProfile, overhead_lines, overhead_rows
from studies.rounds import Round
from warehouse.ledger import FitRecord
from warehouse.systems import System
from warehouse.version import code_version

SYSTEM = System(
    name="async_sgd_overhead",
    what="What a receiver does with a tensor after its last packet: alpha x size + beta",
    source="Li, Yan, Paolieri, Golubchik, ICPE 2020, section 3.2.1",
)
VERSION = "1"


def records(round_: Round, profiles: Sequence[CapturedProfile]) -> list[FitRecord]:
    """Return the fit of each receiving role and node type of a round."""
    rows, found = overhead_rows(profiles), []
    for (role, node_type), line in overhead_lines(profiles).items():
        seen = [
            profile.run.run_id
            for profile in profiles
            if any((one.role, one.node_type) == (role, node_type) for one in profile.scenario.nodes)
        ]
        found.append(
            FitRecord(
                system=SYSTEM.name,
                model_version=VERSION,
                parameters=line.model_dump(mode="json"),
                run_ids=tuple(seen),
                row_filter=f"captured transfers of these runs that a {role} received",
                row_count=line.n,
                data_hash=sha256(rows[role, node_type].write_csv().encode()).hexdigest()[:16],
                backend=round_.backend,
                host_id=round_.host_id,
                code_version=code_version(),
                created_at=datetime.now(UTC),
            )
        )
    return found
