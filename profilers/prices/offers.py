"""What a region offers and asks for it: instance types, on-demand prices, spot prices by zone."""

import uuid
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from importlib.metadata import version
from typing import Any

import polars as pl

from profilers import clock
from profilers.clusters.node_types import NodeType
from profilers.prices.aws import (
    InstanceTypeInfo,
    NetworkCardInfo,
    PriceListEntry,
    SpotPrice,
    check_region,
    client,
    list_pages,
    records,
)
from profilers.probe import ProbeResult
from warehouse.records import BadInput, ProbeFailed, Run

PROBE = "prices"
PROVIDER = "aws"
PRICING_REGION = "us-east-1"
"""Where the Pricing API answers for all regions."""
_LINUX = "Linux/UNIX"
_PRODUCT = {
    "operatingSystem": "Linux",
    "tenancy": "Shared",
    "preInstalledSw": "NA",
    "capacitystatus": "Used",
}
"""What on-demand prices are of: the machine, and nothing with it."""
_PRICE = pl.Schema(
    {
        "provider": pl.String(),
        "node_type": pl.String(),
        "region": pl.String(),
        "zone": pl.String(),
        "market": pl.String(),
        "usd_per_hour": pl.Float64(),
        "observed_at": pl.Datetime("us", "UTC"),
        "source": pl.String(),
    }
)
_Row = tuple[object, ...]


@dataclass(frozen=True)
class RegionPrices(ProbeResult):
    """A run of prices, how many instance types it is of, and those of them that are node types."""

    types: int = 0
    node_types: Mapping[str, NodeType] = field(default_factory=dict)


def observe_prices(
    region: str, types: Collection[str], days: float, seen_at: datetime
) -> RegionPrices:
    """Ask AWS about instance types of a region; return a run with what it answered.

    Rows of on-demand prices are of `seen_at`, those of spot prices of the times since when they
    held.

    Args:
        region: of AWS.
        types: names of instance types, with * for any letters; others of the region are left out.
        days: how far back spot prices go; AWS keeps 90 days.
        seen_at: when it is asked, the same for all regions of one collection.

    Raises:
        BadInput: there is no such region, it offers none of the types, or credentials will not do.
        ProbeFailed: AWS cannot be reached, refuses, or answers what cannot be.
    """
    check_region(region)
    ec2 = client("ec2", region)
    machines = _machines(ec2, region, types)
    names = [machine.name for machine in machines]
    prices = [
        *_on_demand(client("pricing", PRICING_REGION), region, names, seen_at),
        *_spot(ec2, region, names, seen_at - timedelta(days=days)),
    ]
    tables = {"price": pl.DataFrame(prices, _PRICE, orient="row").unique(maintain_order=True)}
    ended_at = clock.now()
    run = Run(
        run_id=f"{seen_at:%Y%m%dT%H%M%S}-{PROBE}-{uuid.uuid4().hex[:8]}",
        probe=PROBE,
        purpose="profile",
        study=PROBE,
        repeat=1,
        scenario_id=None,
        backend="imported",
        status="ok",
        started_at=seen_at,
        ended_at=max(seen_at, ended_at),
        host_id=PROVIDER,
        host={"provider": PROVIDER, "region": region},
        software={"botocore": version("botocore")},
        config={"region": region, "types": ",".join(sorted(types)), "spot_days": days},
    )
    described_types = {machine.name: _node_type(machine) for machine in machines}
    node_types = {name: kind for name, kind in described_types.items() if kind is not None}
    return RegionPrices(run, None, tables, types=len(machines), node_types=node_types)


def _machines(ec2: Any, region: str, types: Collection[str]) -> list[InstanceTypeInfo]:
    """Return the types that the region offers, by name."""
    request = {"Filters": [{"Name": "instance-type", "Values": sorted(types)}]}
    operation = "describe_instance_types"
    by_name = {
        record.name: record
        for record in records(
            InstanceTypeInfo, list_pages(ec2, operation, "InstanceTypes", request), operation
        )
    }
    if not by_name:
        raise BadInput(f"{region} offers none of {', '.join(sorted(types))}; try another --region")
    return [by_name[name] for name in sorted(by_name)]


def _node_type(info: InstanceTypeInfo) -> NodeType | None:
    """Return an instance type as a node type; None: parts of a GPU, others' GPUs, no bandwidth."""
    cards_gbps = [card.always_gbps or 0.0 for card in info.cards or [NetworkCardInfo()]]
    if not all(cards_gbps) or (info.gpu and (info.gpu_maker != "NVIDIA" or not info.gpus)):
        return None
    return NodeType(
        bandwidth_mbps=round(1000 * sum(cards_gbps)),
        threads=info.cores or info.vcpus,
        vcpus=info.vcpus,
        memory_gib=info.memory_mib / 1024,
        gpu=info.gpu,
        gpus=info.gpus or 1,
        efa=bool(info.efa),
    )


def _on_demand(
    pricing: Any, region: str, names: Sequence[str], seen_at: datetime
) -> Iterator[_Row]:
    """Yield the on-demand price of each type that has one."""
    for name in names:
        wanted = {**_PRODUCT, "instanceType": name, "regionCode": region}
        request = {
            "ServiceCode": "AmazonEC2",
            "Filters": [
                {"Type": "TERM_MATCH", "Field": field, "Value": value}
                for field, value in wanted.items()
            ],
        }
        listed = list_pages(pricing, "get_products", "PriceList", request)
        prices = {
            usd_per_hour
            for record in records(PriceListEntry, listed, "get_products")
            for usd_per_hour in _usd_per_hour(record, name)
        }
        if len(prices) > 1:
            several = ", ".join(f"${usd:g}" for usd in sorted(prices))
            raise ProbeFailed(f"get_products: {name} in {region} has several prices: {several}")
        for usd_per_hour in prices:
            yield (
                *(PROVIDER, name, region, None, "on_demand", usd_per_hour, seen_at),
                "AWS Pricing GetProducts",
            )


def _usd_per_hour(entry: PriceListEntry, name: str) -> Iterator[float]:
    """Yield the prices of a product that is rented by the hour, in US dollars.

    Raises:
        ProbeFailed: the price is not one above 0 for an hour.
    """
    if entry.market not in (None, "OnDemand"):
        return
    for term in (entry.on_demand or {}).values():
        for part in term.dimensions.values():
            usd = part.of_unit.get("USD")
            if usd is None or part.unit != "Hrs" or not 0 < usd:
                raise ProbeFailed(
                    f"get_products: {name}: expected a price above 0 in USD for Hrs, found "
                    f"{part.of_unit} for {part.unit}"
                )
            yield usd


def _spot(ec2: Any, region: str, names: Sequence[str], since: datetime) -> Iterator[_Row]:
    """Yield the spot prices of the types in each zone, and the ones that held when it began."""
    request = {"InstanceTypes": list(names), "ProductDescriptions": [_LINUX], "StartTime": since}
    operation = "describe_spot_price_history"
    for record in records(
        SpotPrice, list_pages(ec2, operation, "SpotPriceHistory", request), operation
    ):
        yield (
            *(
                PROVIDER,
                record.name,
                region,
                record.zone,
                "spot",
                record.usd_per_hour,
                record.since,
            ),
            "AWS EC2 DescribeSpotPriceHistory",
        )
