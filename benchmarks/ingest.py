"""How fast measurements come in, how much memory that takes, how fast the history answers.

Every part runs in a process of its own, in a temporary folder that is removed afterwards. Times
are the best of three in that process.
"""

import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks import history, traces
from benchmarks.child import run
from profilers.clusters import owner
from warehouse.records import BadInput

ROWS = 100_000_000
_LEAST_ROWS = 20 * traces.STEP_OPERATIONS
_DISK_BYTES_PER_ROW = 12


@dataclass(frozen=True)
class IngestReport:
    """Figures of one benchmark.

    Keys without a unit are ratios: how many times as fast as the peer in the same run, which is
    TensorFlow's classes and rows of Python objects; whole tables through pyarrow, unchecked; and
    the same question to every timing. `peak_mb` is the largest of the three parts.
    """

    runmetadata_ops_per_s: float
    runmetadata_vs_tensorflow: float
    runmetadata_operations: int
    runmetadata_peak_mb: float
    load_rows_per_s: float
    load_vs_pyarrow: float
    load_rows: int
    load_peak_mb: float
    query_100m_s: float
    query_vs_all_timings: float
    query_rows: int
    query_peak_mb: float
    peak_mb: float

    def to_dict(self) -> dict[str, float]:
        """Return the figures by key."""
        return asdict(self)


def measure(rows: int = ROWS, progress: Callable[[str], None] = lambda _: None) -> IngestReport:
    """Measure with `rows` timings in the history, a tenth of them loaded, and 1/400 as a trace.

    Raises:
        BadInput: too few rows, or the temporary folder has no room for them.
    """
    if rows < _LEAST_ROWS:
        raise BadInput(f"--rows {rows} is too few to time; take {_LEAST_ROWS} or more")
    with _folder(rows) as folder:
        steps = max(rows // 400 // traces.STEP_OPERATIONS, 2)
        progress(f"RunMetadata to Parquet: {steps * traces.STEP_OPERATIONS:,} operations")
        run(traces.write, str(folder), steps)
        read, read_plainly = (
            run(part, str(folder)) for part in (traces.convert, traces.convert_plainly)
        )
        loaded = max(rows // 10, traces.STEP_OPERATIONS)
        run_rows = min(history.RUN_ROWS, loaded)
        loaded -= loaded % run_rows
        progress(f"Parquet to DuckDB: {loaded:,} timings")
        home = _made(folder / "load")
        run(history.land_runs, str(home), loaded, run_rows)
        load, load_plainly = (run(part, str(home)) for part in (history.load, history.load_plainly))
        shutil.rmtree(home)
        progress(f"questions to {rows:,} timings")
        home = _made(folder / "query")
        run(history.land_runs, str(home), run_rows, run_rows)
        run(history.load, str(home))
        run(history.fill, str(home), rows, run_rows)
        ask, ask_all = (run(part, str(home)) for part in (history.ask, history.ask_all_timings))
    return IngestReport(
        runmetadata_ops_per_s=steps * traces.STEP_OPERATIONS / read.seconds,
        runmetadata_vs_tensorflow=read_plainly.seconds / read.seconds,
        runmetadata_operations=steps * traces.STEP_OPERATIONS,
        runmetadata_peak_mb=read.peak_mb,
        load_rows_per_s=loaded / load.seconds,
        load_vs_pyarrow=load_plainly.seconds / load.seconds,
        load_rows=loaded,
        load_peak_mb=load.peak_mb,
        query_100m_s=ask.seconds,
        query_vs_all_timings=ask_all.seconds / ask.seconds,
        query_rows=rows - rows % run_rows,
        query_peak_mb=ask.peak_mb,
        peak_mb=max(read.peak_mb, load.peak_mb, ask.peak_mb),
    )


@contextmanager
def _folder(rows: int) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="bench-", dir=owner.folder()) as name:
        needed, free = rows * _DISK_BYTES_PER_ROW, shutil.disk_usage(name).free
        if free < needed:
            raise BadInput(
                f"{rows:,} rows need {needed / 1e9:.1f} GB in {Path(name).parent}, {free / 1e9:.1f}"
                " GB are free; take fewer with --rows, or another home with STEPCAST_HOME"
            )
        yield Path(name)


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder
