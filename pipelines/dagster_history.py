"""Dagster's own history: one for the command line and for the web interface.

It is kept in the home, in SQLite, unless a variable names a database of PostgreSQL.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import cast
from urllib.parse import urlsplit

import dagster as dg
import yaml
from sqlalchemy import create_engine
from sqlalchemy.exc import OperationalError

from warehouse.documents import read_document
from warehouse.durable_files import write_text
from warehouse.records import BadInput, StepcastError

MODULE = "pipelines.definitions"
"""What Dagster loads; its pages name the code by it, however it is served."""
POSTGRES = "STEPCAST_POSTGRES"
"""Names the database that holds the history of this home and of no other."""
_DRIVER, _CONNECT_S = "postgresql+psycopg2", 10
_IN_POSTGRES = {"postgres": {"postgres_url": {"env": POSTGRES}}}
"""What the password is in is the environment, and no file."""

_RELATIVE = ".stepcast/dagster"
"""Where the checkout's dagster.yaml keeps history, relative to the working directory."""
_SETTINGS = Path(__file__).with_name("dagster.yaml")
_HERE = "dagster-here.yaml"
_UNCAPTURED = {
    "module": "dagster.core.storage.noop_compute_log_manager",
    "class": "NoOpComputeLogManager",
}


def prepare(home: Path) -> None:
    """Write `home`/dagster.yaml, and make `home` the DAGSTER_HOME of this process.

    It is the checkout's file with absolute paths, so that the working directory does not matter.

    Raises:
        BadInput: the history is in PostgreSQL, and the environment does not say where.
        StepcastError: PostgreSQL does not let us in.
    """
    home.mkdir(parents=True, exist_ok=True)
    _check_postgres(home / "dagster.yaml")
    _write(home / "dagster.yaml", _settings(home))
    os.environ["DAGSTER_HOME"] = str(home)


@contextmanager
def instance(home: Path) -> Iterator[dg.DagsterInstance]:
    """Open the history of `home`, for runs in this process.

    Their output is left alone: Dagster would send it through files and helper programs, which
    disturb progress bars, Ctrl-C and measurements.
    """
    prepare(home)
    _write(home / _HERE, {**_settings(home), "compute_logs": _UNCAPTURED})
    with dg.DagsterInstance.from_config(str(home), _HERE) as opened:
        yield opened


def workspace(home: Path, host: str, port: int) -> Path:
    """Write where the service is that serves our code, and return the file."""
    path = home / "workspace.yaml"
    server = {"host": host, "port": port, "location_name": MODULE}
    _write(path, {"load_from": [{"grpc_server": server}]})
    return path


def _settings(home: Path) -> Mapping[str, object]:
    settings = cast(Mapping[str, object], read_document(_SETTINGS, "Dagster's settings"))
    resolved = {key: _absolute(value, home / "dagster") for key, value in settings.items()}
    return {**resolved, "storage": _IN_POSTGRES} if os.environ.get(POSTGRES) else resolved


def _check_postgres(written: Path) -> None:
    """Refuse a variable that names no database, and to begin another history beside one."""
    url = os.environ.get(POSTGRES)
    if not url:
        if written.exists() and POSTGRES in written.read_text():
            raise BadInput(
                f"the runs of this home are in PostgreSQL: set {POSTGRES} as its services have it "
                f"(docs/services.md), or remove {written} to begin a new history in the home"
            )
        return
    expected = BadInput(f"{POSTGRES}: expected postgresql://USER:PASSWORD@HOST:PORT/DATABASE")
    try:
        parts = urlsplit(url)
        is_whole = parts.hostname and parts.port != 0 and parts.path.strip("/")
    except ValueError:
        raise expected from None
    if parts.scheme not in ("postgresql", _DRIVER) or not is_whole:
        raise expected
    if find_spec("dagster_postgres") is None:
        raise BadInput(f"{POSTGRES} needs a package: pip install 'stepcast[services]'")
    # SQLAlchemy takes another driver unless one is named, and Dagster comes with this one.
    os.environ[POSTGRES] = parts._replace(scheme=_DRIVER).geturl()
    engine = create_engine(os.environ[POSTGRES], connect_args={"connect_timeout": _CONNECT_S})
    try:
        engine.connect().close()
    except OperationalError as error:
        raise StepcastError(f"{POSTGRES}: {error.orig}") from None
    finally:
        engine.dispose()


def _absolute(setting: object, folder: Path) -> object:
    if isinstance(setting, dict):
        return {key: _absolute(value, folder) for key, value in setting.items()}
    if isinstance(setting, str) and setting.startswith(_RELATIVE):
        return str(folder) + setting.removeprefix(_RELATIVE)
    return setting


def _write(path: Path, settings: Mapping[str, object]) -> None:
    text = yaml.safe_dump(dict(settings), sort_keys=False)
    if not path.exists() or path.read_text() != text:
        write_text(path, text)
