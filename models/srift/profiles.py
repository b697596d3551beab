"""Profile runs as Srift takes them: tables by network, node type and link, and their fits."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import polars as pl

from models.profiled_run import by_link_speed, read_scenario
from models.srift import latency
from models.srift.allreduce import Speed, place
from models.srift.allreduce_samples import Hardware
from models.srift.iteration import NodeProfile
from models.system import Tables
from warehouse.records import BadInput, NodeGroup, Record, Scenario


class NetworkTables(NamedTuple):
    """What was probed of one network on one node type, as raw tables, and its number of devices.

    `max_batch` is the largest batch that was found to fit, None: not searched.
    """

    compute: pl.DataFrame
    layers: pl.DataFrame
    layer_times: pl.DataFrame
    links: pl.DataFrame
    devices: int = 1
    max_batch: int | None = None


class NetworkProfile(Record):
    """A network's layers, and its profile on each node type."""

    layer_bytes: tuple[int, ...]
    probability: tuple[float, ...]
    nodes: Mapping[str, NodeProfile]


def profile(tables: Mapping[str, NetworkTables]) -> NetworkProfile:
    """Return the profile of one network on each node type.

    Where it was not searched, the largest batch that was profiled is taken for the largest that
    fits. Layers count as often executed as they are in the mean over node types.

    Raises:
        BadInput: other layers on one of them, or as the fits of tables.
    """
    gradients = {
        name: latency.fit_gradients(node_tables.layers, node_tables.layer_times)
        for name, node_tables in tables.items()
    }
    first, *others = gradients
    for name in others:
        if gradients[name].layer_bytes != gradients[first].layer_bytes:
            raise BadInput(
                f"{name} and {first} profiled networks of other layers: expected the same "
                f"gradients; profile the same network on both"
            )
    chances = [node_gradients.probability for node_gradients in gradients.values()]
    nodes = {}
    for name, probed in tables.items():
        ready, last = gradients[name].ready, max(gradients[name].ready)
        nodes[name] = NodeProfile(
            devices=probed.devices,
            max_batch=probed.max_batch
            or int(probed.compute["batch_size"].to_numpy().max(initial=1)),
            latency=latency.fit(_without_tail(probed)),
            ready=tuple(at / last if last > 0 else at for at in ready),
            link_Bps=link_Bps(probed.links),
        )
    return NetworkProfile(
        layer_bytes=gradients[first].layer_bytes,
        probability=tuple(sum(each) / len(each) for each in zip(*chances, strict=True)),
        nodes=nodes,
    )


def link_Bps(links: pl.DataFrame) -> float:
    """Return b_cap from table link: the most that simultaneous flows carried, in the mean.

    Of the two directions the slower one counts.
    """
    together = links.group_by("run_id", "direction", "flows", "trial").agg(
        pl.col("bandwidth_Bps").sum()
    )
    mean = together.group_by("direction", "flows").agg(pl.col("bandwidth_Bps").mean())
    most = mean.group_by("direction").agg(pl.col("bandwidth_Bps").max())
    return float(most["bandwidth_Bps"].to_numpy().min())


def _without_tail(tables: NetworkTables) -> pl.DataFrame:
    """Return table compute with what a backward pass does behind its last gradient as update.

    DDP copies what came back from the all-reduces then, so that it overlaps none of them.
    """
    ready = tables.layer_times.group_by("batch_size", "layer").agg(pl.col("gradient_ready").mean())
    last = ready.group_by("batch_size").agg(pl.col("gradient_ready").max().alias("last"))
    known = tables.compute.join(last, on="batch_size", how="left", maintain_order="left")
    # A batch size that nobody watched has the tail of the others.
    part = pl.col("last").fill_null(pl.col("last").mean()).fill_null(1.0)
    backward_s = pl.col("backward_s")
    return known.with_columns(
        backward_s=backward_s * part,
        update_s=pl.col("update_s").fill_null(0.0) + backward_s * (1 - part),
    ).drop("last")


# What all profile runs of a study measured, put together by network, node type and link speed.


@dataclass(frozen=True)
class NetworkKey:
    """What is trained; profiles of one are good for every batch size."""

    dnn: str
    image_size: int

    @classmethod
    def of(cls, scenario: Scenario) -> "NetworkKey":
        """Return the network of a scenario."""
        return cls(scenario.workload.dnn, scenario.workload.image_size)


@dataclass(frozen=True)
class ProfileTables:
    """The raw tables of any number of profile runs, as `predictor.fit` takes them."""

    tables: Tables

    @property
    def links(self) -> dict[Speed, pl.DataFrame]:
        """Table link by the speed that was probed."""
        return by_link_speed(self.tables["run"], self.tables["link"])

    def node_groups(self) -> dict[str, NodeGroup]:
        """Return each node type that computed, as it was then.

        Raises:
            BadInput: a node type was defined anew between two profiles.
        """
        groups: dict[str, NodeGroup] = {}
        for scenario in self._scenarios(self.tables["compute"]).values():
            group = scenario.nodes[0].bare
            if groups.setdefault(group.node_type, group) != group:
                raise BadInput(
                    f"node type {group.node_type!r} was profiled with two definitions; profile all "
                    "networks again with the one that holds"
                )
        return groups

    def networks(self) -> dict[NetworkKey, dict[str, NetworkTables]]:
        """Return the tables of each network and node type; links are those of no speed yet."""
        run_ids: dict[tuple[NetworkKey, str], list[str]] = {}
        for run_id, scenario in self._scenarios(self.tables["compute"]).items():
            key = (NetworkKey.of(scenario), scenario.nodes[0].node_type)
            run_ids.setdefault(key, []).append(run_id)
        largest = self._largest_batches()
        networks: dict[NetworkKey, dict[str, NetworkTables]] = {}
        for (network, node_type), ids in sorted(run_ids.items(), key=lambda item: str(item[0])):
            of_runs = pl.col("run_id").is_in(ids)
            devices = self.tables["cluster_node"].filter(of_runs)["device_count"].max()
            networks.setdefault(network, {})[node_type] = NetworkTables(
                compute=self.tables["compute"].filter(of_runs),
                layers=self.tables["layer"].filter(of_runs),
                layer_times=self.tables["layer_time"].filter(of_runs),
                links=self.tables["link"].clear(),
                devices=max(int(str(devices or 1)), 1),
                max_batch=largest.get((network, node_type)),
            )
        return networks

    def slowdowns(self, metric: str) -> dict[NetworkKey, float]:
        """Return the mean slowdown with each network, where it was measured.

        `backward_slowdown` is that of its backward pass, `allreduce_slowdown` of all-reduces;
        `straggling_share` is measured with them.
        """
        rows = self.tables["sample"].filter(metric=metric)
        values: dict[NetworkKey, list[float]] = {}
        scenarios = self._scenarios(rows)
        for run_id, value in rows.select("run_id", "value").iter_rows():
            values.setdefault(NetworkKey.of(scenarios[run_id]), []).append(max(value, 0.0))
        return {network: sum(each) / len(each) for network, each in values.items()}

    def _largest_batches(self) -> dict[tuple[NetworkKey, str], int]:
        rows = self.tables["sample"].filter(metric="largest_batch_size").drop_nulls("value")
        scenarios = self._scenarios(rows)
        largest: dict[tuple[NetworkKey, str], int] = {}
        for run_id, value in rows.select("run_id", "value").iter_rows():
            scenario = scenarios[run_id]
            key = (NetworkKey.of(scenario), scenario.nodes[0].node_type)
            # What fitted in every search fits.
            largest[key] = min(int(value), largest.get(key, int(value)))
        return largest

    def _scenarios(self, rows: pl.DataFrame) -> dict[str, Scenario]:
        """Return the scenario of each run that rows are of."""
        known = self.tables["scenario"].join(rows, on="run_id", how="semi")
        return {
            run_id: read_scenario(canonical)
            for run_id, canonical in known.select("run_id", "canonical").sort("run_id").iter_rows()
        }


def allreduces_by_place(
    runs: pl.DataFrame, allreduce: pl.DataFrame, clusters: pl.DataFrame
) -> tuple[pl.DataFrame, dict[str, Hardware]]:
    """Return table cluster_node of all-reduces with places as node types, and these.

    The speed of shaped links is what they are rated. Tables as `ProfileTables` has them.
    """
    nodes = clusters.join(allreduce, on="run_id", how="semi")
    frames, hardware = [nodes.clear()], {}
    for speed, rows in by_link_speed(runs, nodes).items():
        for (node_type,), of_type in rows.group_by("node_type", maintain_order=True):
            name = place(str(node_type), speed)
            frames.append(of_type.with_columns(node_type=pl.lit(name)))
            hardware[name] = _hardware(of_type.row(0, named=True), speed)
    return pl.concat(frames), hardware


def _hardware(node: Mapping[str, object], link_mbps: Speed) -> Hardware:
    memory_bytes = node["memory_bytes"]
    return Hardware.model_validate(
        {
            "device": node["device_name"],
            "devices": max(int(str(node["device_count"] or 1)), 1),
            "cores": node["cores"],
            "memory_gb": None if memory_bytes is None else int(str(memory_bytes)) / 1e9,
            "rated_gbps": None if link_mbps is None else link_mbps / 1000,
        }
    )
