"""Lines of overhead are fits like any other."""

from pathlib import Path

from assets import analyses
from forecasting.async_sgd import CapturedProfile
from studies.rounds import Round
from warehouse.warehouse import Warehouse, read_only


def test_a_fit_names_its_runs_and_rows(
    captured_round: Round, captured: list[CapturedProfile]
) -> None:
    server, worker = analyses.records(captured_round, captured)
    assert worker.run_ids == tuple(profile.run.run_id for profile in captured)
    assert (worker.row_count, worker.parameters["n"]) == (8, 8)
    assert worker.parameters["node_type"] == "emu.native.c25"
    assert worker.row_filter == "captured transfers of these runs that a worker received"
    assert server.fit_id != worker.fit_id
    again = analyses.records(captured_round, captured)
    assert [fit.fit_id for fit in again] == [server.fit_id, worker.fit_id]


def test_fits_are_kept_in_the_warehouse(
    captured_round: Round, captured: list[CapturedProfile], home: Path
) -> None:
    warehouse = Warehouse(home)
    warehouse.load()
    warehouse.register(analyses.SYSTEM)
    for record in analyses.records(captured_round, captured):
        warehouse.record_fit(record)
    roles = (
        "SELECT parameters ->> '$.role' AS role FROM fit.fit WHERE system = 'async_sgd_overhead'"
    )
    assert sorted(read_only(home, roles)["role"]) == ["server", "worker"]
