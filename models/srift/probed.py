"""What all profile runs of a study measured, put together by network, node type and link speed."""

from collections.abc import Mapping
from dataclasses import dataclass

import polars as pl

from models.profiled_run import by_link_speed
from models.srift.allreduce_samples import Hardware
from models.srift.fitted import Tables, link_Bps
from warehouse.records import BadInput, NodeGroup, Scenario

Speed = float | None
"""Of links, Mb/s; None where they are not shaped."""


def place(node_type: str, link_mbps: Speed) -> str:
    """Return the name of a node type on links of a speed: all-reduces differ by both."""
    return node_type if link_mbps is None else f"{node_type}@{link_mbps:g}"


@dataclass(frozen=True)
class Network:
    """What is trained; profiles of one are good for every batch size."""

    dnn: str
    image_size: int

    @classmethod
    def of(cls, scenario: Scenario) -> "Network":
        """Return the network of a scenario."""
        return cls(scenario.workload.dnn, scenario.workload.image_size)


@dataclass(frozen=True)
class Probed:
    """The raw tables of any number of profile runs, as `predictor.fit` takes them."""

    runs: pl.DataFrame
    scenarios: pl.DataFrame
    compute: pl.DataFrame
    layers: pl.DataFrame
    layer_times: pl.DataFrame
    allreduce: pl.DataFrame
    clusters: pl.DataFrame
    links: pl.DataFrame
    samples: pl.DataFrame

    @property
    def link_Bps(self) -> dict[Speed, float]:
        """b_cap of each link speed that was probed."""
        return {
            speed: link_Bps(rows) for speed, rows in by_link_speed(self.runs, self.links).items()
        }

    def node_groups(self) -> dict[str, NodeGroup]:
        """Return each node type that computed, as it was then.

        Raises:
            BadInput: a node type was defined anew between two profiles.
        """
        found: dict[str, NodeGroup] = {}
        for scenario in self._scenarios(self.compute["run_id"].unique().to_list()).values():
            group = bare(scenario.nodes[0])
            if found.setdefault(group.node_type, group) != group:
                raise BadInput(
                    f"node type {group.node_type!r} was profiled with two definitions; profile all "
                    "networks again with the one that holds"
                )
        return found

    def networks(self) -> dict[Network, dict[str, Tables]]:
        """Return the tables of each network and node type; links are those of no speed yet."""
        run_ids: dict[tuple[Network, str], list[str]] = {}
        for run_id, one in self._scenarios(self.compute["run_id"].unique().to_list()).items():
            key = (Network.of(one), one.nodes[0].node_type)
            run_ids.setdefault(key, []).append(run_id)
        largest = self._largest_batches()
        found: dict[Network, dict[str, Tables]] = {}
        for (network, node_type), mine in sorted(run_ids.items(), key=lambda one: str(one[0])):
            of_mine = pl.col("run_id").is_in(mine)
            devices = self.clusters.filter(of_mine)["device_count"].max()
            found.setdefault(network, {})[node_type] = Tables(
                compute=self.compute.filter(of_mine),
                layers=self.layers.filter(of_mine),
                layer_times=self.layer_times.filter(of_mine),
                links=self.links.clear(),
                devices=max(int(str(devices or 1)), 1),
                max_batch=largest.get((network, node_type)),
            )
        return found

    def at_speed(self, tables: Mapping[str, Tables], link_mbps: Speed) -> dict[str, Tables]:
        """Return tables with the links of a speed."""
        links = by_link_speed(self.runs, self.links)[link_mbps]
        return {name: one._replace(links=links) for name, one in tables.items()}

    def slowdowns(self, metric: str) -> dict[Network, float]:
        """Return the mean slowdown with each network, where it was measured.

        `backward_slowdown` is that of its backward pass, `allreduce_slowdown` of all-reduces;
        `straggling_share` is measured with them.
        """
        rows = self.samples.filter(metric=metric)
        values: dict[Network, list[float]] = {}
        scenarios = self._scenarios(rows["run_id"].to_list())
        for run_id, value in rows.select("run_id", "value").iter_rows():
            values.setdefault(Network.of(scenarios[run_id]), []).append(max(value, 0.0))
        return {network: sum(each) / len(each) for network, each in values.items()}

    def _largest_batches(self) -> dict[tuple[Network, str], int]:
        rows = self.samples.filter(metric="largest_batch_size").drop_nulls("value")
        scenarios = self._scenarios(rows["run_id"].to_list())
        found: dict[tuple[Network, str], int] = {}
        for run_id, value in rows.select("run_id", "value").iter_rows():
            one = scenarios[run_id]
            key = (Network.of(one), one.nodes[0].node_type)
            # What fitted in every search fits.
            found[key] = min(int(value), found.get(key, int(value)))
        return found

    def _scenarios(self, run_ids: list[str]) -> dict[str, Scenario]:
        rows = self.scenarios.filter(pl.col("run_id").is_in(run_ids))
        found = {
            run_id: Scenario.model_validate_json(canonical)
            for run_id, canonical in rows.select("run_id", "canonical").sort("run_id").iter_rows()
        }
        missing = sorted(set(run_ids) - set(found))
        if missing:
            raise BadInput(f"run {missing[0]}: its scenario is not in table scenario; load it")
        return found


def by_place(
    runs: pl.DataFrame, allreduce: pl.DataFrame, clusters: pl.DataFrame
) -> tuple[pl.DataFrame, dict[str, Hardware]]:
    """Return table cluster_node of all-reduces with places as node types, and these.

    The speed of shaped links is what they are rated. Tables as `Probed` has them.
    """
    mine = clusters.join(allreduce, on="run_id", how="semi")
    frames, hardware = [mine.clear()], {}
    for speed, rows in by_link_speed(runs, mine).items():
        for (node_type,), of_type in rows.group_by("node_type", maintain_order=True):
            name = place(str(node_type), speed)
            frames.append(of_type.with_columns(node_type=pl.lit(name)))
            hardware[name] = _hardware(of_type.row(0, named=True), speed)
    return pl.concat(frames), hardware


def bare(group: NodeGroup) -> NodeGroup:
    """Return a group without its count and batch: the node type as it was defined."""
    return group.model_copy(update={"count": 1, "batch_size": None})


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
