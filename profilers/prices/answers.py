"""What AWS answers, as records: what we do not read is left out, what cannot be is refused."""

from collections.abc import Iterator
from typing import Annotated, Any, TypeVar

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, ValidationError

from warehouse import limits
from warehouse.amounts import Usd
from warehouse.records import ProbeFailed

TYPE_NAME = r"^[a-z][a-z0-9-]{0,39}\.[a-z0-9-]{1,40}$"
"""A name of an instance type, such as p3.2xlarge."""
TypeName = Annotated[str, Field(pattern=TYPE_NAME)]
Text = Annotated[str, Field(pattern=r"^[ -~]{1,200}$")]
Zone = Annotated[str, Field(pattern=r"^[a-z0-9-]{1,60}$")]
Gbps = Annotated[float, Field(gt=0, le=limits.MBPS / 1e3, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=1, le=limits.NODES)]
MiB = Annotated[int, Field(ge=1, le=1 << 40)]
UsdPerHour = Annotated[float, Field(gt=0, le=limits.USD, allow_inf_nan=False)]


class Answer(BaseModel):
    """Part of an answer: frozen, and deaf to what it does not name."""

    model_config = ConfigDict(frozen=True, extra="ignore", populate_by_name=True)


class Memory(Answer):
    """An amount of memory."""

    mebibytes: MiB = Field(alias="SizeInMiB")


class Gpu(Answer):
    """GPUs of one kind."""

    maker: Text = Field(alias="Manufacturer")
    name: Text = Field(alias="Name")
    count: Annotated[int, Field(ge=0, le=limits.NODES)] = Field(alias="Count")
    memory: Memory = Field(alias="MemoryInfo")


class Gpus(Answer):
    """The GPUs of an instance type, which are of one kind."""

    kinds: tuple[Gpu, ...] = Field(alias="Gpus", min_length=1, max_length=1)


class Processors(Answer):
    """The virtual processors of an instance type."""

    count: Count = Field(alias="DefaultVCpus")


class Card(Answer):
    """A network card, and how fast it always is, and at best."""

    always_gbps: Gbps | None = Field(default=None, alias="BaselineBandwidthInGbps")
    peak_gbps: Gbps | None = Field(default=None, alias="PeakBandwidthInGbps")


class Network(Answer):
    """The network of an instance type, first in words."""

    words: Text = Field(alias="NetworkPerformance")
    cards: tuple[Card, ...] = Field(default=(), alias="NetworkCards", max_length=1000)


class InstanceType(Answer):
    """An instance type as DescribeInstanceTypes tells it."""

    name: TypeName = Field(alias="InstanceType")
    processors: Processors = Field(alias="VCpuInfo")
    memory: Memory = Field(alias="MemoryInfo")
    network: Network = Field(alias="NetworkInfo")
    gpus: Gpus | None = Field(default=None, alias="GpuInfo")


class SpotPrice(Answer):
    """A price of the spot market as DescribeSpotPriceHistory tells it, from when it held."""

    name: TypeName = Field(alias="InstanceType")
    zone: Zone = Field(alias="AvailabilityZone")
    usd_per_hour: UsdPerHour = Field(alias="SpotPrice")
    since: AwareDatetime = Field(alias="Timestamp")


class Attributes(Answer):
    """What a product is, as GetProducts tells it."""

    name: TypeName = Field(alias="instanceType")
    region: Text = Field(alias="regionCode")
    system: Text = Field(alias="operatingSystem")
    tenancy: Text
    software: Text = Field(alias="preInstalledSw")
    capacity: Text = Field(alias="capacitystatus")
    market: Text = Field(default="OnDemand", alias="marketoption")


class Product(Answer):
    """A product, which may be a kind of machine."""

    attributes: Attributes


class Dimension(Answer):
    """A part of a price: so much in each currency for each unit of use."""

    unit: Text
    of_unit: dict[str, Usd] = Field(alias="pricePerUnit", max_length=10)


class Term(Answer):
    """A way of paying, and the parts of its price."""

    dimensions: dict[str, Dimension] = Field(alias="priceDimensions", min_length=1, max_length=100)


class Terms(Answer):
    """The ways of paying for a product on demand."""

    on_demand: dict[str, Term] = Field(default={}, alias="OnDemand", max_length=100)


class Priced(Answer):
    """One entry of what GetProducts answers: a product with its prices."""

    product: Product
    terms: Terms


_Kind = TypeVar("_Kind", bound=Answer)


def records(kind: type[_Kind], told: Iterator[Any], operation: str) -> Iterator[_Kind]:
    """Yield what AWS lists as records, JSON in JSON as well.

    Raises:
        ProbeFailed: something in it cannot be.
    """
    for number, one in enumerate(told, start=1):
        try:
            yield (
                kind.model_validate_json(one) if isinstance(one, str) else kind.model_validate(one)
            )
        except ValidationError as error:
            first = error.errors(include_url=False, include_context=False)[0]
            where = ".".join(map(str, first["loc"]))
            raise ProbeFailed(
                f"{operation}: entry {number} cannot be: {where}: {first['msg']}, found "
                f"{first['input']!r:.60}"
            ) from None
