"""Bus bandwidth of an all-reduce, learned: two models split at the MTU (section 4.2)."""

from collections.abc import Collection, Mapping

import numpy as np
import polars as pl
from numpy.typing import NDArray

from models.srift.allreduce_samples import (
    FIGURES,
    NAMES,
    AlphaBeta,
    Hardware,
    features,
    fit_lines,
    samples,
)
from models.srift.boosting import Grid, Loss, Trees, tune_trees
from warehouse.records import BadInput, Record

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

Speed = float | None
"""Of links, Mb/s; None where they are not shaped."""
MTUS_BYTES = (1500, 9216)
"""The smallest and the largest MTU that machines of a data centre are set to."""


class LearnedBandwidth(Record):
    """The fitted models, what node types are, and how names are numbered for the trees.

    `small` is for buffers up to the MTU, which latency bounds, `large` for the others; so are the
    formulas beside them, of which trees may have learned the ratio. `mtu_bytes` is that of each
    node type's link; a mix has the least.
    """

    small: Trees
    large: Trees
    small_formula: AlphaBeta
    large_formula: AlphaBeta
    hardware: Mapping[str, Hardware]
    mtu_bytes: Mapping[str, int]
    names: tuple[tuple[str, ...], ...]
    run_ids: tuple[str, ...]

    def table(self, node_types: tuple[str, ...], world_sizes: Ints, size_bytes: Ints) -> Floats:
        """Return bus bandwidth in bytes/s, [world sizes, sizes], of transfers that are alone."""
        shape = (len(world_sizes), len(size_bytes))
        world, size = np.meshgrid(world_sizes, size_bytes, indexing="ij")
        row = features(node_types, self.hardware)
        alone = np.ones(size.size)
        operations = np.stack([size.ravel(), world.ravel(), alone], axis=1).astype(np.float64)
        x = matrix([row] * size.size, operations, self.names)
        is_small = size.ravel() <= min(self.mtu_bytes[node_type] for node_type in node_types)
        bandwidth_Bps = np.zeros(size.size)
        n, size_of = (values.ravel().astype(np.float64) for values in (world, size))
        for trees, formula, part in (
            (self.small, self.small_formula, is_small),
            (self.large, self.large_formula, ~is_small),
        ):
            if part.any():
                formula_Bps = formula.bus_Bps(node_types, n[part], size_of[part])
                bandwidth_Bps[part] = trees.predict(x[part], formula_Bps)
        return bandwidth_Bps.reshape(shape)


def place(node_type: str, link_mbps: Speed) -> str:
    """Return the name of a node type on links of a speed: all-reduces differ by both."""
    return node_type if link_mbps is None else f"{node_type}@{link_mbps:g}"


class SpeedBandwidth(Record):
    """A model that knows node types by their place, on links of one speed, times a factor."""

    model: LearnedBandwidth | AlphaBeta
    link_mbps: Speed
    factor: float = 1.0

    def table(self, node_types: tuple[str, ...], world_sizes: Ints, size_bytes: Ints) -> Floats:
        """Return bus bandwidth in bytes/s, [world sizes, sizes]."""
        places = tuple(sorted(place(node_type, self.link_mbps) for node_type in node_types))
        return self.factor * self.model.table(places, world_sizes, size_bytes)


def fit(
    allreduce: pl.DataFrame,
    clusters: pl.DataFrame,
    hardware: Mapping[str, Hardware],
    grid: Grid | None = None,
) -> LearnedBandwidth:
    """Fit to probed all-reduces of one library.

    Pseudo-Huber loss for buffers up to the MTU, squared error for larger ones; the rest is tuned by
    cross-validation in which no configuration is on both sides.

    Args:
        allreduce: table allreduce.
        clusters: table cluster_node of the same runs.
        hardware: features of each node type.
        grid: what to try.

    Raises:
        BadInput: as `samples`, or too few rows on a side of the MTU: `check_grid` tells before
            anything is probed.
    """
    grid = grid or Grid()
    rows = samples(allreduce, clusters)
    mixes = {mix: tuple(mix.split("+")) for mix in rows["node_types"].unique().sort()}
    known = {mix: features(node_types, hardware) for mix, node_types in mixes.items()}
    names = tuple(
        tuple(sorted({getattr(cluster, name) for cluster in known.values()} - {None}))
        for name in NAMES
    )
    operations = rows.select("size_bytes", "world_size", "concurrent").to_numpy().astype(np.float64)
    x = matrix([known[mix] for mix in rows["node_types"]], operations, names)
    is_small = (rows["size_bytes"] <= rows["mtu_bytes"]).to_numpy()
    for side, part in (("up to", is_small), ("above", ~is_small)):
        if not part.any():
            raise BadInput(f"no all-reduce of buffers {side} the MTU: probe more buffer sizes")
    small = _fit_side(rows.filter(is_small), x[is_small], "reg:pseudohubererror", grid)
    large = _fit_side(rows.filter(~is_small), x[~is_small], "reg:squarederror", grid)
    return LearnedBandwidth(
        small=small[0],
        large=large[0],
        small_formula=small[1],
        large_formula=large[1],
        hardware={name: hardware[name] for mix in mixes.values() for name in mix},
        mtu_bytes=_mtu_bytes(rows, mixes),
        names=names,
        run_ids=tuple(rows["run_id"].unique().sort()),
    )


def check_grid(
    sizes_bytes: Collection[int],
    world_sizes: Collection[int],
    concurrent: Collection[int],
    mtu_bytes: int | None,
    clusters: int = 1,
) -> None:
    """Refuse a grid of all-reduces to which `fit` cannot be fitted.

    On each side of the MTU the formula needs transfers that are alone, and cross-validation leaves
    some of them out.

    Args:
        sizes_bytes: sizes of buffers.
        world_sizes: numbers of ranks.
        concurrent: numbers of transfers at once.
        mtu_bytes: that of the links; None: any of `MTUS_BYTES`, so that what none of them could
            make good is refused.
        clusters: on how many kinds of clusters the grid is probed.

    Raises:
        BadInput: naming the axis of the grid, what was expected and what was found.
    """
    if 1 not in concurrent:
        raise BadInput(
            f"concurrent: expected 1, transfers that are alone, among the numbers of transfers at "
            f"once, found {sorted(concurrent)}; add 1"
        )
    least, most = MTUS_BYTES if mtu_bytes is None else (mtu_bytes, mtu_bytes)
    for where, sizes in (
        (f"up to the MTU of {most} bytes", {size for size in sizes_bytes if size <= most}),
        (f"above the MTU of {least} bytes", {size for size in sizes_bytes if size > least}),
    ):
        if not sizes:
            raise BadInput(
                f"sizes_bytes: expected a size {where}, found {sorted(sizes_bytes)}; add one"
            )
        if len(sizes) * len(set(world_sizes)) * clusters < 2:
            raise BadInput(
                f"sizes_bytes: expected two sizes {where}, or two world sizes, for "
                f"cross-validation, found {sorted(sizes)}; add one"
            )


def _fit_side(rows: pl.DataFrame, x: Floats, loss: Loss, grid: Grid) -> tuple[Trees, AlphaBeta]:
    """Return the trees of the least error in cross-validation, and the formula beside them.

    Args:
        rows: of `samples`, on one side of the MTU.
        x: [rows, features], what trees see of each.
        loss: that is minimised.
        grid: what to try.
    """
    mixes = rows["node_types"].unique().to_list()
    # Repeats of one configuration have the same number.
    groups = np.unique(np.nan_to_num(x, nan=-1.0), axis=0, return_inverse=True)[1].ravel()
    bandwidth_Bps = rows["bus_bandwidth_Bps"].to_numpy()

    def formula(fitted_to: NDArray[np.bool_]) -> Floats:
        return fit_lines(rows.filter(fitted_to), mixes).of_rows(rows)

    trees = tune_trees(x, bandwidth_Bps, groups, loss, grid, formula)
    return trees, fit_lines(rows, mixes)


def matrix(
    hardware: list[Hardware], operations: Floats, names: tuple[tuple[str, ...], ...]
) -> Floats:
    """Return one row of numbers per all-reduce.

    Args:
        hardware: features of each row's cluster.
        operations: [rows, 3]: buffer size, number of participants, concurrent transfers.
        names: the known names of location, device and processor; others count as missing.

    Returns:
        [rows, features]
    """
    numbers = {cluster: _numbers(cluster, names) for cluster in set(hardware)}
    return np.hstack([np.array([numbers[cluster] for cluster in hardware]), operations])


def _numbers(cluster: Hardware, names: tuple[tuple[str, ...], ...]) -> list[float]:
    codes = [
        float(known.index(name)) if (name := getattr(cluster, column)) in known else np.nan
        for column, known in zip(NAMES, names, strict=True)
    ]
    figures = [getattr(cluster, column) for column in FIGURES]
    return [*codes, *(np.nan if figure is None else float(figure) for figure in figures)]


def _mtu_bytes(rows: pl.DataFrame, mixes: Mapping[str, tuple[str, ...]]) -> dict[str, int]:
    """Return the least MTU that was recorded with each node type, of mixes where it had no own."""
    least = dict(rows.group_by("node_types").agg(pl.col("mtu_bytes").min()).iter_rows())
    mtu_bytes = {
        node_type: min(least[mix] for mix, node_types in mixes.items() if node_type in node_types)
        for mix_of in mixes.values()
        for node_type in mix_of
    }
    return mtu_bytes | {
        mix: least[mix] for mix, node_types in mixes.items() if len(node_types) == 1
    }
