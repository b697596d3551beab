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
_MEBIBYTE = 1 << 20
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
_TYPE = pl.Schema(
    {
        "provider": pl.String(),
        "node_type": pl.String(),
        "region": pl.String(),
        "vcpus": pl.Int32(),
        "memory_bytes": pl.Int64(),
        "device_count": pl.Int16(),
        "device_name": pl.String(),
        "device_memory_bytes": pl.Int64(),
        "network": pl.String(),
        "network_gbps": pl.Float64(),
        "network_peak_gbps": pl.Float64(),
        "observed_at": pl.Datetime("us", "UTC"),
        "source": pl.String(),
    }
)
_Row = tuple[object, ...]


@dataclass(frozen=True)
class RegionPrices(ProbeResult):
    """A run of prices, and the instance types of its region as node types."""

    node_types: Mapping[str, NodeType] = field(default_factory=dict)


def observe_prices(
    region: str, types: Collection[str], days: float, seen_at: datetime
) -> RegionPrices:
    """Ask AWS about instance types of a region; return a run with what it answered.

    Its rows of raw.instance_type and of on-demand prices are of `seen_at`, those of spot prices of
    the times since when they held.

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
    described = [_described(machine, region, seen_at) for machine in machines]
    tables = {
        "instance_type": pl.DataFrame(described, _TYPE, orient="row"),
        "price": pl.DataFrame(prices, _PRICE, orient="row").unique(maintain_order=True),
    }
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
    return RegionPrices(run, None, tables, node_types=node_types)


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


def _described(info: InstanceTypeInfo, region: str, seen_at: datetime) -> _Row:
    gpu = info.gpus.kinds[0] if info.gpus else None
    return (
        *(PROVIDER, info.name, region, info.processors.count, info.memory.mebibytes * _MEBIBYTE),
        gpu.count if gpu else 0,
        f"{gpu.maker} {gpu.name}" if gpu else None,
        gpu.memory.mebibytes * _MEBIBYTE if gpu else None,
        info.network.words,
        _together([card.always_gbps for card in info.network.cards]),
        _together([card.peak_gbps for card in info.network.cards]),
        *(seen_at, "AWS EC2 DescribeInstanceTypes"),
    )


def _node_type(info: InstanceTypeInfo) -> NodeType | None:
    """Return an instance type as a node type; None: parts of a GPU, others' GPUs, no bandwidth."""
    gpu = info.gpus.kinds[0] if info.gpus else None
    bandwidth_gbps = _together([card.always_gbps for card in info.network.cards])
    if bandwidth_gbps is None or (gpu and (gpu.maker != "NVIDIA" or not gpu.count)):
        return None
    return NodeType(
        bandwidth_mbps=round(1000 * bandwidth_gbps),
        threads=info.processors.cores or info.processors.count,
        vcpus=info.processors.count,
        memory_gib=info.memory.mebibytes / 1024,
        gpu=gpu.name if gpu else None,
        gpus=gpu.count if gpu else 1,
        efa=info.network.efa,
    )


def _together(parts: Sequence[float | None]) -> float | None:
    known = [part for part in parts if part is not None]
    return sum(known) if known and len(known) == len(parts) else None


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
            for usd_per_hour in _usd_per_hour(record, wanted)
        }
        if len(prices) > 1:
            several = ", ".join(f"${usd:g}" for usd in sorted(prices))
            raise ProbeFailed(f"get_products: {name} in {region} has several prices: {several}")
        for usd_per_hour in prices:
            yield (
                *(PROVIDER, name, region, None, "on_demand", usd_per_hour, seen_at),
                "AWS Pricing GetProducts",
            )


def _usd_per_hour(entry: PriceListEntry, wanted: Mapping[str, str]) -> Iterator[float]:
    """Yield the prices of a product that is rented by the hour, in US dollars.

    Raises:
        ProbeFailed: it is not what was asked for, or the price is not one for an hour.
    """
    fields = entry.product.attributes.model_dump(by_alias=True)
    for name, value in wanted.items():
        if fields[name] != value:
            raise ProbeFailed(f"get_products: asked for {name} {value}, found {fields[name]}")
    if entry.product.attributes.market != "OnDemand":
        return
    for term in entry.terms.on_demand.values():
        for part in term.dimensions.values():
            usd = part.of_unit.get("USD")
            if usd is None or part.unit != "Hrs":
                currencies = ", ".join(part.of_unit)
                raise ProbeFailed(
                    f"get_products: {fields['instanceType']} in {fields['regionCode']}: expected a "
                    f"price in USD for Hrs, found {currencies} for {part.unit}"
                )
            if not 0 < usd:
                raise ProbeFailed(
                    f"get_products: {fields['instanceType']} in {fields['regionCode']}: expected a "
                    f"price above 0, found {usd:g}"
                )
            yield usd


def _spot(ec2: Any, region: str, names: Sequence[str], since: datetime) -> Iterator[_Row]:
    """Yield the spot prices of the types in each zone, and the ones that held when it began."""
    request = {
        "InstanceTypes": list(names),
        "ProductDescriptions": [_LINUX],
        "StartTime": since,
    }
    operation = "describe_spot_price_history"
    for record in records(
        SpotPrice, list_pages(ec2, operation, "SpotPriceHistory", request), operation
    ):
        if record.name not in names or not record.zone.startswith(region):
            raise ProbeFailed(
                f"{operation}: asked for {', '.join(names)} in {region}, found {record.name} in "
                f"{record.zone}"
            )
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
