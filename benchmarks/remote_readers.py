"""Ways for many readers of one history, while loaders append runs and processes are killed.

Each reader and each loader is a process of its own, as is whatever serves. A loader lands a run in
a folder of its own, gives it to the history, and notes it as acknowledged; when it was killed, its
successor gives what had landed and was not acknowledged, unless the history has it. A question
that counts rows of three tables says whether it saw a run in part. Kills are SIGKILL.
"""

import functools
import http.server
import importlib.util
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from bisect import bisect
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from http import HTTPStatus
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks import postgres
from benchmarks.history import land_run, land_runs
from benchmarks.traces import STEP_OPERATIONS
from warehouse.connection import connect, transaction
from warehouse.durable_files import scratch
from warehouse.home import CHECKOUT, HISTORY, home
from warehouse.landing import run_folders
from warehouse.records import MissingTool, StepcastError
from warehouse.transfer import copy_run
from warehouse.warehouse import QUERIES, Warehouse

WAYS = {
    "copies": "history.duckdb, fetched over HTTP when it is new",
    "parquet": "landed Parquet files in a shared folder",
    "ducklake": "DuckLake, catalogue in PostgreSQL",
    "quack": "DuckDB's server, a run as one text of SQL",
    "quack-attached": "DuckDB's server, a run as a transaction over ATTACH",
}
RUN_ROWS = 2 * STEP_OPERATIONS
"""Timings of a run: two traced steps."""
_TABLES = ("scenario", "operation", "timing", "run")
_TOKEN = "only-on-loopback"
_EXTENSIONS = {
    "ducklake": ("ducklake", "postgres_scanner"),
    "quack": ("httpfs", "quack"),
    "quack-attached": ("httpfs", "quack"),
}
_PATIENCE_S = 20.0
"""How long processes may take to begin, and to end what they do when time is up."""
_BETWEEN_RUNS_S = 1.0
_BETWEEN_LOOKS_S = 0.1
_BETWEEN_TRIES_S = 0.5
"""How long one waits who got no answer: a connection costs processor time, also of who serves."""
_COUNTED = """
    WITH
    timed AS (SELECT run_id, count(*) AS timings FROM raw.timing GROUP BY run_id),
    known AS (SELECT run_id, count(*) AS operations FROM raw.operation GROUP BY run_id),
    entered AS (SELECT run_id, count(*) AS runs FROM raw.run GROUP BY run_id)
    SELECT run_id, runs, operations, timings
    FROM entered FULL JOIN known USING (run_id) FULL JOIN timed USING (run_id)
"""
_WHOLE = f"""
    SELECT count(*), count(*) FILTER (
        runs IS DISTINCT FROM 1 OR operations IS DISTINCT FROM {STEP_OPERATIONS}
        OR timings IS DISTINCT FROM {RUN_ROWS}
    ) FROM ({_COUNTED})
"""
_BY_TYPE = """
    SELECT type, sum(duration_us) AS us FROM raw.timing JOIN raw.operation USING (run_id, operation)
    GROUP BY type ORDER BY us DESC
"""
Rows = list[tuple[Any, ...]]


@dataclass(frozen=True)
class Size:
    """How much: runs of the history before, processes, seconds of a way and between kills."""

    runs: int = 300
    readers: int = 8
    loaders: int = 4
    seconds: float = 30.0
    between_kills_s: float = 3.0
    seed: int = 1


@dataclass(frozen=True)
class WayFigures:
    """What was seen of one way; times in seconds, `kills` by kind of process.

    `partial` are answers that saw a run in part; `lost` and `doubled` are acknowledged runs that
    the history lacks or has in part, and has more than once, at the end; `unasked` are runs there
    that nobody acknowledged. `behind` is how many acknowledged runs an answer lacked, in the
    median. `silence_s` is the longest time without an answer to any reader. `crashes` are servers
    that ended by themselves, `hung` are processes that did not end in time.
    """

    way: str
    answers: int
    question_p50_s: float
    question_p95_s: float
    question_errors: int
    partial: int
    behind: float
    silence_s: float
    acknowledged: int
    append_p50_s: float
    append_p95_s: float
    append_errors: int
    kills: dict[str, int]
    lost: int
    doubled: int
    unasked: int
    crashes: int = 0
    hung: int = 0
    messages: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class ReadersReport:
    """What was seen of each way, and the rows of timings that were there before."""

    rows: int
    readers: int
    loaders: int
    seconds: float
    ways: tuple[WayFigures, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return the figures by name."""
        return asdict(self)


@dataclass(frozen=True)
class Site:
    """What a process must know: the way, the folder of all, where servers are, the size."""

    way: str
    folder: str
    url: str
    port: int
    size: Size

    @property
    def path(self) -> Path:
        """The folder that all of them see."""
        return Path(self.folder)


def measure(
    ways: Sequence[str] = tuple(WAYS),
    size: Size = Size(),
    progress: Callable[[str], None] = lambda _: None,
) -> ReadersReport:
    """Try each way for `size.seconds`, one after the other, with a history of equal rows.

    Raises:
        MissingTool: an extension of DuckDB or PostgreSQL is not installed.
        StepcastError: a server does not start.
    """
    for way in ways:
        for name in _EXTENSIONS.get(way, ()):
            _extension(name)
    home().mkdir(parents=True, exist_ok=True)
    with scratch(home()) as place:
        progress(f"land {size.runs} runs")
        land_runs(str(place / "before"), size.runs * RUN_ROWS, RUN_ROWS)
        reports = []
        for way in ways:
            progress(WAYS[way])
            reports.append(_try(way, place / way, place / "before" / "landing", size))
        return ReadersReport(
            size.runs * RUN_ROWS, size.readers, size.loaders, size.seconds, tuple(reports)
        )


def _try(way: str, folder: Path, before: Path, size: Size) -> WayFigures:
    (folder / "notes").mkdir(parents=True)
    with ExitStack() as stack:
        catalogue = stack.enter_context(postgres.cluster()) if way == "ducklake" else None
        url = catalogue.url if catalogue else ""
        site = Site(way, str(folder), url, postgres.free_port(), size)
        _begin(site, before)
        people = _People(site, catalogue)
        stack.callback(people.end)
        kills = people.work()
        people.settle()
        report = _report(site, kills, list(_final(site)))
        return replace(report, crashes=people.crashes, hung=people.hung)


def _begin(site: Site, before: Path) -> None:
    """Make the history that is there before."""
    shared = site.path / "landing"
    if site.way in ("copies", "parquet"):
        shutil.copytree(before, shared, copy_function=os.link)
        if site.way == "copies":
            Warehouse(site.path).load()
    else:
        with _history(site, alone=True) as connection:
            connection.execute("CREATE SCHEMA raw")
            for table in _TABLES:
                files = f"read_parquet('{before}/*/{table}.parquet')"
                connection.execute(f"CREATE TABLE raw.{table} AS FROM {files}")
            if site.way != "ducklake":  # which has no keys
                connection.execute("ALTER TABLE raw.run ADD PRIMARY KEY (run_id)")


class _People:
    """All processes of a way: who serves, reads and loads, each started again once it is killed."""

    def __init__(self, site: Site, catalogue: postgres.Cluster | None) -> None:
        self._site, self._catalogue = site, catalogue
        self._processes: dict[tuple[str, int], subprocess.Popen[bytes]] = {}
        self.crashes = self.hung = 0
        servers = {"copies": 2, "quack": 1, "quack-attached": 1}.get(site.way, 0)
        self._servers = [("server", number) for number in range(servers)]
        self._workers = [("reader", number) for number in range(site.size.readers)]
        self._workers += [("loader", number) for number in range(site.size.loaders)]

    def work(self) -> Counter[str]:
        """Start all, kill some for as long as the way is tried, and return how many of each kind.

        Raises:
            StepcastError: a process does not begin, or does not end when time is up.
        """
        size = self._site.size
        chance = random.Random(size.seed)
        for who in (*self._servers, *self._workers):
            self._start(who)
        notes = self._site.path / "notes"
        self._wait(lambda: len(list(notes.iterdir())) == len(self._workers))
        until_s = time.time() + size.seconds
        (self._site.path / "until").write_text(str(until_s))
        kinds = ["loader", "reader"] + (["server"] if self._servers or self._catalogue else [])
        kills: Counter[str] = Counter()
        while True:
            pause_s = chance.uniform(0.5, 1.5) * size.between_kills_s
            if time.time() + pause_s + size.between_kills_s > until_s:
                break
            self._watch(time.time() + pause_s)
            kind = kinds[sum(kills.values()) % len(kinds)]
            self._kill(kind, chance)
            kills[kind] += 1
        self._watch(until_s + _PATIENCE_S)
        self.hung = sum(self._processes[who].poll() is None for who in self._workers)
        return kills

    def _watch(self, until_s: float) -> None:
        """Wait, and start servers again that ended by themselves; no longer than anybody works."""
        while time.time() < until_s:
            for who in self._servers:
                if self._processes[who].poll() is not None:
                    self.crashes += 1
                    self._start(who)
            if all(self._processes[who].poll() is not None for who in self._workers):
                return
            time.sleep(_BETWEEN_LOOKS_S)

    def settle(self) -> None:
        """End what serves, so that the history can be read alone."""
        self.end()
        if self._site.way == "copies":
            Warehouse(self._site.path).load()

    def end(self) -> None:
        """Kill what is still there."""
        for process in self._processes.values():
            process.kill()
            process.wait()

    def _start(self, who: tuple[str, int]) -> None:
        call = json.dumps([*who, asdict(self._site)])
        command = [sys.executable, "-m", __name__, call]
        with (self._site.path / "stderr").open("ab") as errors:
            self._processes[who] = subprocess.Popen(command, cwd=CHECKOUT, stderr=errors)

    def _kill(self, kind: str, chance: random.Random) -> None:
        if kind == "server" and self._catalogue is not None:
            self._catalogue.kill()
            self._catalogue.start()
            return
        who = chance.choice([who for who in self._processes if who[0] == kind])
        self._processes[who].send_signal(signal.SIGKILL)
        self._processes[who].wait()
        self._start(who)

    def _wait(self, is_so: Callable[[], bool]) -> None:
        until_s = time.monotonic() + _PATIENCE_S
        while not is_so():
            if time.monotonic() > until_s:
                lines = (self._site.path / "stderr").read_text().splitlines() or ["no message"]
                raise StepcastError(f"{self._site.way}: a process hangs; {lines[-1]}")
            time.sleep(_BETWEEN_LOOKS_S)


# What processes do.


def _main() -> None:
    kind, number, fields = json.loads(sys.argv[1])
    site = Site(**{**fields, "size": Size(**fields["size"])})
    {"reader": _read, "loader": _load, "server": _serve}[kind](site, number)


def _read(site: Site, number: int) -> None:
    """Ask one question after the other, until time is up."""
    chance = random.Random(number)
    with _notes(site, f"reader-{number}") as note:
        while _goes_on(site):
            try:
                with _asking(site, number) as ask:
                    while _goes_on(site):
                        for text in _questions(site, chance):
                            began_s, clock_s = time.time(), time.perf_counter()
                            rows = ask(text)
                            took_s = time.perf_counter() - clock_s
                            seen = rows[0] if text == _WHOLE else None
                            note({"began_s": began_s, "took_s": took_s, "seen": seen})
            except Exception as error:  # what fails is counted, whatever it is
                note({"error": _line(error)})
                time.sleep(_BETWEEN_TRIES_S)


def _questions(site: Site, chance: random.Random) -> tuple[str, ...]:
    run_id = f"run-{chance.randrange(site.size.runs):06d}"
    # Other ways than copies have the raw tables alone.
    shipped = (QUERIES / "run_operations.sql").read_text().replace("report.timing", "raw.timing")
    return shipped.replace("$run_id", f"'{run_id}'").replace("$limit", "20"), _BY_TYPE, _WHOLE


def _load(site: Site, number: int) -> None:
    """Land runs and give them to the history until time is up, first those that were left."""
    landing = site.path / f"loader-{number}" / "landing"
    with _notes(site, f"loader-{number}") as note:
        done = {line["run"] for line in _noted(site, f"loader-{number}") if "run" in line}
        left = sorted({run.name for run in run_folders(landing)} - done)
        count, began_s = len(done) + len(left), time.perf_counter()
        while left or _goes_on(site):
            is_new = False
            try:
                with _history(site) as connection:
                    while left or _goes_on(site):
                        if not left:
                            left, count, is_new = [f"run-{number}-{count:05}"], count + 1, True
                            land_run(landing, left[0], RUN_ROWS, count)
                            began_s = time.perf_counter()
                        _append(site, connection, landing / left[0], is_new=is_new)
                        took_s = time.perf_counter() - began_s
                        note({"run": left.pop(0), "at_s": time.time(), "took_s": took_s})
                        time.sleep(max(_BETWEEN_RUNS_S - took_s, 0))
                        began_s = time.perf_counter()
            except Exception as error:  # what fails is counted, whatever it is
                note({"error": _line(error)})
                time.sleep(_BETWEEN_TRIES_S)


def _serve(site: Site, number: int) -> None:
    """Serve, until killed: the history, files over HTTP, or what has landed to those files."""
    if site.way != "copies":
        with _history(site, alone=True) as connection:
            _load_extensions(connection, site.way)
            connection.execute(f"CALL quack_serve('{_address(site)}', token = '{_TOKEN}')")
            signal.pause()
    elif number:
        while True:
            Warehouse(site.path).load()
            time.sleep(_BETWEEN_LOOKS_S)
    else:
        handler = functools.partial(_Quiet, directory=site.folder)
        http.server.ThreadingHTTPServer(("127.0.0.1", site.port), handler).serve_forever()


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Say nothing."""


# How each way is asked, and gets a run.


@contextmanager
def _history(site: Site, *, alone: bool = False) -> Iterator[Any]:
    """Yield a connection to what is asked, of which `raw` is a schema; `alone`: to its file."""
    served = site.path / "served.duckdb"
    if alone and site.way != "ducklake":
        with connect(served) as connection:
            yield connection
        return
    with connect(Path(":memory:")) as connection:
        _load_extensions(connection, site.way)
        if site.way == "ducklake":
            connection.execute(
                f"ATTACH 'ducklake:postgres:{site.url}' AS lake (DATA_PATH '{site.path / 'lake'}')"
            )
            connection.execute("USE lake")
        elif site.way == "quack-attached":
            secret = f"TYPE quack, TOKEN '{_TOKEN}'"
            connection.execute(f"ATTACH '{_address(site)}' AS served ({secret})")
        yield connection


@contextmanager
def _asking(site: Site, number: int) -> Iterator[Callable[[str], Rows]]:
    """Yield what answers a question with rows."""
    if site.way == "copies":
        with _Copy(site, number) as copy:
            yield copy.ask
        return
    with _history(site) as connection:
        if site.way == "parquet":
            connection.execute("CREATE SCHEMA raw")

        def ask(text: str) -> Rows:
            if site.way == "parquet":
                _see_files(connection, site)
            if site.way.startswith("quack"):
                text = _remote(site, text)
            rows: Rows = connection.execute(text).fetchall()
            return rows

        yield ask


class _Copy:
    """A reader's own copy of the history, fetched again when there is a newer one."""

    def __init__(self, site: Site, number: int) -> None:
        self._url = f"http://127.0.0.1:{site.port}/{HISTORY}"
        self._file = site.path / f"reader-{number}.duckdb"
        self._of = ""
        self._open = ExitStack()
        self._connection: Any = None

    def __enter__(self) -> "_Copy":
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def ask(self, text: str) -> Rows:
        """Return the rows; where no newer copy can be had, of the one that is there."""
        try:
            self._fetch()
        except OSError:
            if self._connection is None:
                raise
        rows: Rows = self._connection.execute(text).fetchall()
        return rows

    def _fetch(self) -> None:
        request = urllib.request.Request(self._url, headers={"If-Modified-Since": self._of})
        try:
            with urllib.request.urlopen(request, timeout=_PATIENCE_S) as answer:
                fresh = self._file.with_suffix(".fresh")
                with fresh.open("wb") as file:
                    shutil.copyfileobj(answer, file)
                if fresh.stat().st_size != int(answer.headers["Content-Length"]):
                    raise OSError("the server ended before the file did")
                self._of = answer.headers["Last-Modified"]
        except urllib.error.HTTPError as error:
            if error.code != HTTPStatus.NOT_MODIFIED:
                raise
            return
        self._open.close()
        fresh.replace(self._file)
        self._connection = self._open.enter_context(connect(self._file, read_only=True))


def _see_files(connection: Any, site: Site) -> None:
    """Make tables of the files that one look at the folder shows: a run has all of its files."""
    runs = [run.name for run in run_folders(site.path / "landing")]
    for table in _TABLES:
        files = [f"{site.path}/landing/{run}/{table}.parquet" for run in runs]
        connection.execute(f"CREATE OR REPLACE VIEW raw.{table} AS FROM read_parquet({files})")


def _append(site: Site, connection: Any, run: Path, *, is_new: bool) -> None:
    """Give a landed run to the history; unless it is new, only if it is not there yet."""
    if site.way in ("copies", "parquet"):
        copy_run(run.parent, site.path / "landing", run.name)
        return
    into = "served.raw" if site.way == "quack-attached" else "raw"
    known = f"SELECT count(*) FROM raw.run WHERE run_id = '{run.name}'"
    if site.way != "ducklake":
        known = _remote(site, known)
    if not is_new and connection.execute(known).fetchone() != (0,):
        return
    inserts = [
        f"INSERT INTO {into}.{table} FROM read_parquet('{run / table}.parquet')"
        for table in _TABLES
    ]
    if site.way == "quack":
        connection.execute(_remote(site, "; ".join(["BEGIN", *inserts, "COMMIT"])))
        return
    with transaction(connection):
        for insert in inserts:
            connection.execute(insert)


def _final(site: Site) -> Iterator[tuple[str, int, int, int]]:
    """Yield each run of the history at the end, and its rows in three tables."""
    if site.way == "copies":
        with connect(site.path / HISTORY, read_only=True) as connection:
            yield from connection.execute(_COUNTED).fetchall()
        return
    with _history(site, alone=site.way.startswith("quack")) as connection:
        if site.way == "parquet":
            connection.execute("CREATE SCHEMA raw")
            _see_files(connection, site)
        yield from connection.execute(_COUNTED).fetchall()


def _address(site: Site) -> str:
    return f"quack:127.0.0.1:{site.port}"


def _remote(site: Site, text: str) -> str:
    """Return what asks the server a statement."""
    quoted = text.replace("'", "''")
    return f"FROM quack_query('{_address(site)}', '{quoted}', token = '{_TOKEN}')"


def _load_extensions(connection: Any, way: str) -> None:
    for name in _EXTENSIONS.get(way, ()):
        connection.execute(f"LOAD '{_extension(name)}'")


def _extension(name: str) -> Path:
    """Return the file of an extension of DuckDB that pip has installed.

    Raises:
        MissingTool: it is not installed.
    """
    spec = importlib.util.find_spec(f"duckdb_extension_{name}")
    if spec is None or spec.origin is None:
        raise MissingTool(f"DuckDB's {name} is not installed: pip install 'stepcast[readers]'")
    (file,) = Path(spec.origin).parent.rglob("*.duckdb_extension")
    return file


# What they note, and what follows from that.


@contextmanager
def _notes(site: Site, name: str) -> Iterator[Callable[[dict[str, Any]], None]]:
    """Yield what notes a line. A killed process leaves whole lines, and one in part at most."""
    with (site.path / "notes" / name).open("ab", buffering=0) as file:
        if file.tell():
            file.write(b"\n")
        yield lambda line: _append_line(file, line)


def _append_line(file: Any, line: dict[str, Any]) -> None:
    file.write(json.dumps(line).encode() + b"\n")


def _noted(site: Site, pattern: str) -> Iterator[dict[str, Any]]:
    for path in sorted((site.path / "notes").glob(pattern)):
        for line in path.read_bytes().splitlines():
            with suppress(ValueError):
                yield json.loads(line)


def _goes_on(site: Site) -> bool:
    until = site.path / "until"
    return not until.exists() or time.time() < float(until.read_text())


def _line(error: Exception) -> str:
    """Return the first line of a message without what is another one each time."""
    text = (str(error).strip().splitlines() or [type(error).__name__])[0]
    text = (text.partition("could not be written: ")[2] or text).partition("; free disk")[0]
    return re.sub(r"\S+@\S+|\S*/\S+|run-\S+|\d+", "…", text)[:160]


def _report(site: Site, kills: Counter[str], rows: list[tuple[str, int, int, int]]) -> WayFigures:
    reader_lines = list(_noted(site, "reader-*"))
    loader_lines = list(_noted(site, "loader-*"))
    answers = [line for line in reader_lines if "took_s" in line]
    appended = [line for line in loader_lines if "run" in line]
    acknowledged = sorted(line["at_s"] for line in appended)
    if not answers or not appended:
        errors = Counter(
            line["error"] for line in (*reader_lines, *loader_lines) if "error" in line
        )
        raise StepcastError(f"{site.way}: nothing was answered or given; {errors.most_common(2)}")
    names = {line["run"] for line in appended}
    looks = [line for line in answers if line["seen"]]
    until_s = float((site.path / "until").read_text())
    ends_s = sorted(line["began_s"] + line["took_s"] for line in answers)
    counts_by_run = {run_id: counts for run_id, *counts in rows}
    once = (1, STEP_OPERATIONS, RUN_ROWS)
    doubled = {
        run_id
        for run_id, counts in counts_by_run.items()
        if any((count or 0) > whole for count, whole in zip(counts, once, strict=True))
    }
    partial = {
        run_id for run_id, counts in counts_by_run.items() if tuple(counts) != once
    } - doubled
    before = {f"run-{number:06d}" for number in range(site.size.runs)}
    messages = Counter(line["error"] for line in (*reader_lines, *loader_lines) if "error" in line)
    return WayFigures(
        way=site.way,
        answers=len(answers),
        question_p50_s=_percentile(answers, 50),
        question_p95_s=_percentile(answers, 95),
        question_errors=sum("error" in line for line in reader_lines),
        partial=sum(line["seen"][1] > 0 for line in looks),
        behind=median(
            bisect(acknowledged, line["began_s"]) - (line["seen"][0] - site.size.runs)
            for line in looks
        ),
        silence_s=max(later - sooner for sooner, later in pairwise([*ends_s, until_s])),
        acknowledged=len(names),
        append_p50_s=_percentile(appended, 50),
        append_p95_s=_percentile(appended, 95),
        append_errors=sum("error" in line for line in loader_lines),
        kills=dict(kills),
        lost=len((names | before) - (set(counts_by_run) - partial)),
        doubled=len(doubled),
        unasked=len(set(counts_by_run) - names - before),
        messages=dict(messages.most_common(5)),
    )


def _percentile(lines: list[dict[str, Any]], percent: int) -> float:
    times_s = sorted(line["took_s"] for line in lines)
    return float(times_s[min(len(times_s) * percent // 100, len(times_s) - 1)])


if __name__ == "__main__":
    _main()
