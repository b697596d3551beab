"""How fast Ceer is fitted to a history of many operations, and how fast it predicts.

Every part runs in a process of its own, in a temporary folder that is removed afterwards; fitting
and predicting use one core.
"""

import importlib
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks import operations
from benchmarks.child import best_of, run, seconds
from profilers.clusters import owner
from warehouse.records import BadInput

ROWS = 10_000_000
_LEAST_ROWS = operations.STEP_OPERATIONS * len(operations.DNNS) * len(operations.NODE_TYPES)
_QUERIES = Path(__file__).parents[1] / "warehouse/queries"
_MEMORY = "512MB"


@dataclass(frozen=True)
class CeerReport:
    """Figures of one benchmark.

    `fit_s` is from opening the history to the saved fit; `fit_peak_mb` the memory of the process
    that does it; `predict_ms` one network on every node type.
    """

    fit_rows: int
    fit_types: int
    fit_s: float
    fit_peak_mb: float
    predict_node_types: int
    predict_ms: float

    def to_dict(self) -> dict[str, float]:
        """Return the figures by key."""
        return asdict(self)


def measure(rows: int = ROWS, progress: Callable[[str], None] = lambda _: None) -> CeerReport:
    """Measure with `rows` profiled operations.

    Raises:
        BadInput: too few rows for a run of each DNN on each node type.
    """
    if rows < _LEAST_ROWS:
        raise BadInput(f"--rows {rows} is too few to fit; take {_LEAST_ROWS} or more")
    with tempfile.TemporaryDirectory(prefix="bench-", dir=owner.folder()) as home:
        progress(f"a history of {rows:,} operations")
        run(operations.fill, home, rows)
        progress("fit")
        fitted = run(fit, home)
        progress("predict")
        predicted = run(predict, home)
    return CeerReport(
        fit_rows=rows - rows % _LEAST_ROWS,
        fit_types=len(operations.TYPES),
        fit_s=fitted.seconds,
        fit_peak_mb=fitted.peak_mb,
        predict_node_types=len(operations.NODE_TYPES),
        predict_ms=predicted.seconds * 1000,
    )


def fit(home: str) -> float:
    """Fit to what the history holds and save the parameters; called in a child.

    Importing is not timed: it happens once in a program.
    """
    importlib.import_module("models.ceer.predictor")
    return seconds(lambda: _fit(Path(home)))


def _fit(home: Path) -> None:
    from models.ceer.predictor import fit as fitted
    from warehouse.connection import connect

    aggregate, untraced = (
        (_QUERIES / f"ceer_{name}.sql").read_text() for name in ("operations", "steps")
    )
    with connect(home / "warehouse.duckdb", read_only=True) as connection:
        connection.execute(f"SET threads = 1; SET memory_limit = '{_MEMORY}'")
        everything = {"dnn": None, "node_type": None}
        observed = connection.execute(aggregate, everything).pl()
        steps = connection.execute(untraced, everything).pl()
    model = fitted(operations=observed, steps=steps)
    (home / "ceer.json").write_text(model.parameters_json())


def predict(home: str) -> float:
    """Predict one network on every node type, the best of ten; called in a child."""
    from models.ceer.operations import operations_of_profile
    from models.ceer.predictor import Ceer
    from warehouse.connection import connect

    aggregate = (_QUERIES / "ceer_operations.sql").read_text()
    parameters = {"dnn": operations.DNNS[-1], "node_type": next(iter(operations.NODE_TYPES))}
    with connect(Path(home, "warehouse.duckdb"), read_only=True) as connection:
        rows = connection.execute(aggregate, parameters).pl()
    network = operations_of_profile(rows, parameters["dnn"], 8, 50_000_000)
    model = Ceer.from_json(Path(home, "ceer.json").read_text())
    return best_of(10, lambda: model.predict(network))
