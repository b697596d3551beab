"""Ceer: a step is the sum of its operations and S_k (Hafeez and Gandhi, section IV)."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import polars as pl

from models.ceer import overhead, regression
from models.ceer.classes import check_sizes, classify
from models.ceer.features import NAMES, table
from models.ceer.kinds import typed
from models.ceer.medians import median
from models.ceer.network import Network
from models.ceer.observed import computing
from models.ceer.operation_times import operation_times
from models.ceer.parameters import Parameters, Settings
from models.ceer.steps import PREDICTED, Without, predict_step
from warehouse.records import BadInput

__all__ = ["Ceer", "Parameters", "Settings", "fit"]


@dataclass(frozen=True)
class Ceer:
    """The fitted model."""

    parameters: Parameters

    @property
    def node_types(self) -> tuple[str, ...]:
        """Node types for which there is S of at least one number of devices, sorted."""
        return tuple(sorted({one.node_type for one in self.parameters.overheads}))

    def operations(self, network: Network, node_types: Iterable[str] | None = None) -> pl.DataFrame:
        """Return how long each operation takes on each node type.

        Returns:
            node_type, type, class, count, us (of one; NULL: unseen, and may be heavy), low_us,
            high_us and the columns of `Network.operations` that say what it works on.
        """
        wanted = self._known(node_types)
        coverage = self.parameters.settings.coverage
        found = operation_times(self.parameters, network, wanted)
        return pl.concat([times.frame(network, coverage) for times in found])

    def predict(
        self,
        network: Network,
        node_types: Iterable[str] | None = None,
        *,
        devices: Sequence[int] | None = None,
        without: Without = frozenset(),
    ) -> pl.DataFrame:
        """Return the time of one step, for every number of devices and link for which there is S.

        The step of k devices processes k batches. Where an operation that may be heavy was not
        seen, `step_s` is NULL, `unseen` names it, and low_s to high_s is what follows: it takes
        nothing, or as long for its input as the slowest heavy operation does.

        Args:
            network: what is trained.
            node_types: None: all.
            devices: None: all for which there is S.
            without: for ablations; `light` leaves out light and CPU operations, `overhead` S.

        Returns:
            `PREDICTED`, sorted by node type, devices and link.

        Raises:
            BadInput: a node type or number of devices for which there is no S.
        """
        known = self._known(node_types)
        rows = []
        for times in operation_times(self.parameters, network, known):
            setups = [one for one in self.parameters.overheads if one.node_type == times.node_type]
            measured = sorted({one.devices for one in setups})
            unknown = sorted(set(devices or ()) - set(measured))
            if unknown:
                raise BadInput(
                    f"{times.node_type}: what steps of {unknown[0]} device(s) take is known only "
                    f"of {', '.join(map(str, measured))}; measure one of any DNN first"
                )
            asked = [one for one in setups if devices is None or one.devices in devices]
            coverage = self.parameters.settings.coverage
            rows += [predict_step(network, times, one, coverage, without) for one in asked]
        return pl.DataFrame(rows, schema=PREDICTED, orient="row").sort(
            "node_type", "devices", "link_mbps"
        )

    def parameters_json(self) -> str:
        """Return the parameters as canonical JSON."""
        return self.parameters.canonical_json()

    @classmethod
    def from_json(cls, text: str) -> "Ceer":
        """Read what `parameters_json` wrote."""
        return cls(Parameters.model_validate_json(text))

    def _known(self, node_types: Iterable[str] | None) -> tuple[str, ...]:
        wanted = self.node_types if node_types is None else tuple(node_types)
        for one in wanted:
            if one not in self.node_types:
                raise BadInput(
                    f"node type {one} was not measured, only {', '.join(self.node_types)}; profile "
                    "operations and steps on it first"
                )
        return wanted


def fit(
    *,
    operations: pl.DataFrame,
    steps: pl.DataFrame,
    settings: Settings | None = None,
) -> Ceer:
    """Fit to profiled operations and measured steps.

    Args:
        operations: `models.ceer.observed.OBSERVED`.
        steps: `models.ceer.overhead.STEPS`, of 1 and more devices.
        settings: None: the defaults, which go past the paper; `parameters.PAPER` is the paper.

    Raises:
        BadInput: tables that are incomplete, or contradict each other.
    """
    settings = settings or Settings()
    rows = typed(computing(operations), settings)
    classes = classify(rows, settings.threshold_us)
    check_sizes(rows, classes, "operations to fit")
    measured = overhead.overheads(steps, operations)
    return Ceer(
        Parameters(
            settings=settings,
            dnns=tuple(sorted(rows["dnn"].unique())),
            classes=classes,
            regressions=_regressions(rows, settings),
            light=median(
                rows, [one for one in rows["type"].unique() if classes.of(one) == "light"]
            ),
            cpu=median(rows, classes.cpu),
            overheads=overhead.fit(
                measured, forms=settings.forms, relative=settings.weights != "equal"
            ),
        )
    )


def _regressions(rows: pl.DataFrame, settings: Settings) -> tuple[regression.Regression, ...]:
    points = pl.concat(
        [rows.select("type", "node_type", "dnn", "count", "mean_us"), table(rows)], how="horizontal"
    )
    # Equal operations of a DNN are one point, however often they were profiled.
    merged = points.group_by("type", "node_type", "dnn", *NAMES).agg(
        ((pl.col("count") * pl.col("mean_us")).sum() / pl.col("count").sum()).alias("mean_us"),
        pl.col("count").sum(),
    )
    groups = merged.sort(pl.all()).partition_by("type", "node_type", maintain_order=True)
    return tuple(
        regression.fit(
            group,
            operation_type=group["type"][0],
            node_type=group["node_type"][0],
            forms=settings.forms,
            weights=settings.weights,
        )
        for group in groups
    )
