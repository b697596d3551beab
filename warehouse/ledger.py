"""The ledger: fits and predictions, written once and never updated."""

import json
from collections.abc import Mapping, Sequence

import duckdb
import pyarrow as pa
from pydantic import AwareDatetime, JsonValue

from warehouse.connection import first_line, transaction
from warehouse.records import Backend, BadInput, Prediction, Record, content_hash


class FitRecord(Record):
    """Fitted parameters of one model version, and what they were fitted to.

    `run_ids` are the profile runs the fit saw, `row_filter` says which of their rows,
    `row_count` how many those were and `data_hash` names their content.
    """

    system: str
    model_version: str
    parameters: Mapping[str, JsonValue]
    run_ids: tuple[str, ...]
    row_filter: str
    row_count: int
    data_hash: str
    backend: Backend
    host_id: str
    created_at: AwareDatetime

    @property
    def fit_id(self) -> str:
        """Hash of everything but `created_at`: the same fit again is the same fit."""
        return _content_id(self, "created_at")


def prediction_id(prediction: Prediction) -> str:
    """Return the hash of everything but `made_at`: the same forecast again is the same one."""
    return _content_id(prediction, "made_at")


def record_fit(connection: duckdb.DuckDBPyConnection, fit: FitRecord) -> None:
    """Write a fit, unless it is there already.

    Raises:
        BadInput: the fit names runs that predictors may not see.
    """
    hidden = connection.execute(
        "SELECT run_id FROM unnest(?::VARCHAR[]) AS t(run_id) ANTI JOIN visible.run USING (run_id)",
        [list(fit.run_ids)],
    ).fetchall()
    if hidden:
        names = ", ".join(run_id for (run_id,) in hidden)
        raise BadInput(f"fit of {fit.system} names runs that are not loaded ok profiles: {names}")
    row = {
        **fit.model_dump(),
        "fit_id": fit.fit_id,
        "parameters": json.dumps(fit.model_dump(mode="json")["parameters"], sort_keys=True),
        "run_ids": list(fit.run_ids),
    }
    with transaction(connection):
        _append(connection, "fit.fit", "fit_id", [row])


def record_predictions(
    connection: duckdb.DuckDBPyConnection, predictions: Sequence[Prediction]
) -> int:
    """Append predictions, all or none, and return how many were new.

    Raises:
        BadInput: a fit is unknown, a time has no zone, or the ledger already holds another
            forecast by the same fit of the same subject and metric in the same study round.
    """
    if not predictions:
        return 0
    naive = [one.subject_id for one in predictions if one.made_at.tzinfo is None]
    if naive:
        raise BadInput(f"prediction of {naive[0]}: made_at has no time zone; use UTC")
    with transaction(connection):
        _refuse_unknown_fits(connection, {one.fit_id for one in predictions})
        rows = [{**one.model_dump(), "prediction_id": prediction_id(one)} for one in predictions]
        written = _append(connection, "pred.ledger", "prediction_id", rows)
        _refuse_second_values(connection)
    return written


def _append(
    connection: duckdb.DuckDBPyConnection, table: str, key: str, rows: list[dict[str, object]]
) -> int:
    connection.register("incoming", pa.Table.from_pylist(rows))
    try:
        written = connection.execute(
            f"INSERT INTO {table} BY NAME "
            f"SELECT DISTINCT ON ({key}) * FROM incoming ANTI JOIN {table} USING ({key})"
        ).fetchone()
    except (duckdb.IntegrityError, duckdb.DataError) as error:
        raise BadInput(f"refused by {table}: {first_line(error)}") from error
    connection.unregister("incoming")
    return int(written[0]) if written else 0


def _refuse_unknown_fits(connection: duckdb.DuckDBPyConnection, fit_ids: set[str]) -> None:
    unknown = connection.execute(
        "SELECT fit_id FROM unnest(?::VARCHAR[]) AS named(fit_id) ANTI JOIN fit.fit USING (fit_id)",
        [sorted(fit_ids)],
    ).fetchone()
    if unknown:
        raise BadInput(f"predictions name fit {unknown[0]}, which is not recorded; record it first")


def _refuse_second_values(connection: duckdb.DuckDBPyConnection) -> None:
    clash = connection.execute(
        "SELECT system, subject_id, metric, study, repeat, list(value) FROM pred.ledger GROUP BY "
        "system, fit_id, subject_kind, subject_id, backend, host_id, metric, study, repeat "
        "HAVING count(*) > 1 LIMIT 1"
    ).fetchone()
    if clash:
        system, subject, metric, study, repeat, values = clash
        raise BadInput(
            f"the ledger is never updated: {system} has forecast {metric} of {subject} in round "
            f"{repeat} of {study} before, with other figures: {values}"
        )


def _content_id(record: Record, time: str) -> str:
    content = record.model_dump(mode="json", exclude={time})
    return content_hash(json.dumps(content, sort_keys=True, separators=(",", ":")))
