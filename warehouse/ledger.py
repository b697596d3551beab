"""The ledger: fits, predictions, recommendations; written once, chained, kept."""

import json
from collections.abc import Collection, Mapping, Sequence

import duckdb
from pydantic import AwareDatetime, JsonValue

from warehouse import chain, journal
from warehouse.connection import run
from warehouse.journal import JournalTransaction
from warehouse.records import (
    Backend,
    BadInput,
    Prediction,
    Price,
    Recommendation,
    Record,
    Scenario,
    content_hash,
)

_REMADE = ("fit.fit", "pred.ledger")
_OF_ITS_MAKING = {"created_at", "made_at", "code_version", "code_digest"}


class FitRecord(Record):
    """Fitted parameters of one model version, and what they were fitted to.

    `run_ids` are the profile runs the fit saw, `row_filter` says which of their rows,
    `row_count` how many those were and `data_hash` names their content. `code_version` is the
    Stepcast that made it, `code_digest` names the code of its system, if somebody is to find it by
    that.
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
    code_version: str
    created_at: AwareDatetime
    code_digest: str | None = None

    @property
    def fit_id(self) -> str:
        """Hash of everything but code version and time: the same fit again is the same fit."""
        return content_id(self)


def price_snapshot(prices: Sequence[Price]) -> str:
    """Return the id of a set of prices: the hash of all of them, in whatever order they come."""
    return content_hash(
        "\n".join(sorted({chain.canonical(price.model_dump()) for price in prices}))
    )


def record_fit(connection: duckdb.DuckDBPyConnection, fit: FitRecord) -> None:
    """Write a fit, unless it is there already.

    Raises:
        BadInput: it names runs that predictors may not see.
    """
    named = "unnest($run_ids::VARCHAR[]) AS t(run_id)"
    unseen = f"SELECT run_id FROM {named} ANTI JOIN visible.run USING (run_id)"
    hidden = run(connection, unseen, {"run_ids": fit.run_ids}).fetchall()
    if hidden:
        names = ", ".join(run_id for (run_id,) in hidden)
        raise BadInput(f"fit of {fit.system} names runs that are not loaded ok profiles: {names}")
    row = _row(fit, "parameters") | {"fit_id": fit.fit_id}
    digest = row.pop("code_digest")
    with journal.entry(connection) as entry:
        _append_new(entry, "fit.fit", [row])
        if digest is not None:
            _note_remade(entry, [(row["fit_id"], digest)])


def record_predictions(
    connection: duckdb.DuckDBPyConnection, predictions: Sequence[Prediction]
) -> int:
    """Append predictions, all or none, and return how many were new.

    Raises:
        BadInput: a fit or price snapshot is unknown, a time has no zone, or the ledger already
            holds another forecast by the same fit of the same subject and metric, at the same
            prices, in the same study round.
    """
    if not predictions:
        return 0
    naive = [
        prediction.subject_id for prediction in predictions if prediction.made_at.tzinfo is None
    ]
    if naive:
        raise BadInput(f"prediction of {naive[0]}: made_at has no time zone; use UTC")
    _check_recorded(
        connection, "fit.fit", "fit_id", [prediction.fit_id for prediction in predictions]
    )
    _check_prices_recorded(connection, [prediction.price_snapshot for prediction in predictions])
    rows = [
        _row(prediction) | {"prediction_id": content_id(prediction)} for prediction in predictions
    ]
    with journal.entry(connection) as entry:
        written = _append_new(entry, "pred.ledger", rows)
        _check_single_values(connection)
    return written


def record_recommendation(
    connection: duckdb.DuckDBPyConnection, recommendation: Recommendation
) -> str:
    """Append a recommendation, unless it is there already, and return its id.

    Raises:
        BadInput: a fit or its price snapshot is unknown.
    """
    _check_recorded(connection, "fit.fit", "fit_id", recommendation.fit_ids)
    _check_prices_recorded(connection, [recommendation.price_snapshot])
    key = content_id(recommendation)
    row = _row(recommendation, "job", "constraints", "choice", "alternatives")
    with journal.entry(connection) as entry:
        _append_new(entry, "pred.recommendation", [row | {"recommendation_id": key}])
    return key


def record_prices(connection: duckdb.DuckDBPyConnection, prices: Sequence[Price]) -> str:
    """Keep a set of prices, unless it is there already, and return its id.

    Raises:
        BadInput: there are no prices.
    """
    if not prices:
        raise BadInput("a price snapshot needs a price; found none")
    key = price_snapshot(prices)
    known = "SELECT 1 FROM pred.price_snapshot WHERE price_snapshot = $key"
    if run(connection, known, {"key": key}).fetchone() is None:
        rows = [price.model_dump() | {"price_snapshot": key} for price in dict.fromkeys(prices)]
        with journal.entry(connection) as entry:
            entry.insert("pred.price_snapshot", rows)
    return key


def record_scenarios(connection: duckdb.DuckDBPyConnection, scenarios: Sequence[Scenario]) -> None:
    """Keep what scenarios are, each once: nobody may ever measure what was merely asked about."""
    if not scenarios:
        return
    named = "scenario_id IN (SELECT unnest($ids::VARCHAR[]))"
    ids = {"ids": [scenario.scenario_id for scenario in scenarios]}
    asked = f"SELECT scenario_id FROM pred.asked_scenario WHERE {named}"
    known = run(connection, asked, ids).fetchall()
    seen = {scenario_id for (scenario_id,) in known}
    new = {
        scenario.scenario_id: scenario for scenario in scenarios if scenario.scenario_id not in seen
    }
    rows = [
        {"scenario_id": key, "label": scenario.label, "canonical": scenario.canonical_json()}
        for key, scenario in new.items()
    ]
    with journal.entry(connection) as entry:
        entry.insert("pred.asked_scenario", rows)


def verify(connection: duckdb.DuckDBPyConnection) -> str | None:
    """Say which row of the ledger is the first that is not what was written; None if all are.

    Rows were changed, removed, put in or moved; prices a row rests on count as part of it.
    """
    broken = chain.verify(connection)
    if broken is not None:
        return broken
    used = connection.execute(
        "SELECT price_snapshot, min(sequence), min_by(kind, sequence), min_by(key, sequence) FROM ("
        "SELECT price_snapshot, sequence, 'pred.ledger' AS kind, prediction_id AS key "
        "FROM pred.ledger UNION ALL "
        "SELECT price_snapshot, sequence, 'pred.recommendation', recommendation_id "
        "FROM pred.recommendation) WHERE price_snapshot IS NOT NULL GROUP BY ALL ORDER BY 2"
    ).fetchall()
    for key, sequence, kind, row in used:
        query = (
            "SELECT * EXCLUDE (price_snapshot) FROM pred.price_snapshot WHERE price_snapshot = ?"
        )
        rows = connection.execute(query, [key]).to_arrow_table().to_pylist()
        if price_snapshot([Price.model_validate(price) for price in rows]) != key:
            where = chain.name_row(sequence, kind, row)
            return f"{where} rests on prices that were changed: snapshot {key}"
    return None


def _append_new(entry: JournalTransaction, table: str, rows: Sequence[Mapping[str, object]]) -> int:
    """Append the rows whose id the table lacks, each once, and return how many those were.

    Of fits and predictions, note which other code had made first.
    """
    key = chain.KEYS[table]
    known = run(
        entry.connection,
        f"SELECT {key}, code_version FROM {table} WHERE {key} IN (SELECT unnest($keys::VARCHAR[]))",
        {"keys": [str(row[key]) for row in rows]},
    ).fetchall()
    first = dict(known)
    new: dict[object, Mapping[str, object]] = {}
    for row in rows:
        if row[key] not in first:
            new.setdefault(row[key], row)
    chain.append(entry, table, list(new.values()))
    if table in _REMADE:
        made_by = {name: row["code_version"] for name, row in new.items()} | first
        made = {(row[key], row["code_version"]) for row in rows}
        _note_remade(entry, made - set(made_by.items()))
    return len(new)


def _note_remade(entry: JournalTransaction, remade: Collection[tuple[object, object]]) -> None:
    """Note rows, and which other code than the first made them again."""
    if not remade:
        return
    known = run(
        entry.connection,
        "SELECT key, code_version FROM meta.remade WHERE key IN (SELECT unnest($keys::VARCHAR[]))",
        {"keys": [str(key) for key, _ in remade]},
    ).fetchall()
    rows = [
        {"key": key, "code_version": version}
        for key, version in sorted(set(remade) - set(known), key=str)
    ]
    entry.insert("meta.remade", rows)


def _row(record: Record, *in_json: str) -> dict[str, object]:
    whole = record.model_dump(mode="json", include=set(in_json))
    texts = {
        name: None if value is None else json.dumps(value, sort_keys=True)
        for name, value in whole.items()
    }
    return {**record.model_dump(), **texts}


def _check_recorded(
    connection: duckdb.DuckDBPyConnection, table: str, key: str, ids: Sequence[str]
) -> None:
    """Refuse ids that a table does not have."""
    named = f"unnest($ids::VARCHAR[]) AS named({key})"
    absent = f"SELECT {key} FROM {named} ANTI JOIN {table} USING ({key})"
    unknown = run(connection, absent, {"ids": sorted(set(ids))}).fetchone()
    if unknown:
        what = key.removesuffix("_id").replace("_", " ")
        raise BadInput(f"this names {what} {unknown[0]}, which is not recorded; record it first")


def _check_prices_recorded(
    connection: duckdb.DuckDBPyConnection, snapshots: Sequence[str | None]
) -> None:
    """Refuse snapshots of prices that were not recorded; None: no prices were used."""
    used = [snapshot for snapshot in snapshots if snapshot is not None]
    _check_recorded(connection, "pred.price_snapshot", "price_snapshot", used)


def _check_single_values(connection: duckdb.DuckDBPyConnection) -> None:
    """Refuse a second, other forecast of a system where the ledger has one."""
    clash = connection.execute(
        "SELECT system, subject_id, metric, study, repeat, list(value) FROM pred.ledger GROUP BY "
        "system, fit_id, subject_kind, subject_id, backend, host_id, metric, price_snapshot, "
        "study, repeat HAVING count(*) > 1 LIMIT 1"
    ).fetchone()
    if clash:
        system, subject, metric, study, repeat, values = clash
        when = "for nobody's study" if study is None else f"in round {repeat} of {study}"
        raise BadInput(
            f"the ledger is never updated: {system} has forecast {metric} of {subject} {when} "
            f"before, with other figures: {values}"
        )


def content_id(record: Record) -> str:
    """Return the hash of everything but code version and time: the same row again is the same."""
    content = record.model_dump(mode="json", exclude=_OF_ITS_MAKING)
    return content_hash(json.dumps(content, sort_keys=True, separators=(",", ":")))
