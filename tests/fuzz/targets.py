"""What is fuzzed: every reader of foreign bytes, with seeds, mutations and limits of its own."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from importlib import import_module
from pathlib import Path
from random import Random
from unittest.mock import patch

import pyarrow as pa
from botocore.parsers import create_parser

from networks import UnknownNetwork
from pipelines.runtime.job_file import read_job
from profilers.clusters.fleet import Fleet
from profilers.prices.aws import (
    AwsResponse,
    InstanceTypeInfo,
    PriceListEntry,
    SpotPrice,
    explain_errors,
    records,
)
from profilers.readers import capture, csv_mapping, csv_table
from profilers.readers.contract import ReaderOptions
from profilers.readers.csv_mapping import CsvMapping
from profilers.readers.formats import FORMATS
from profilers.record_file import read_record
from studies.study import read_study
from tests import aws
from tests.fuzz import landed, packed_sets, packets, seeds
from tests.fuzz.mutation import YAML_VALUES, Mutator
from warehouse.records import BadInput, ProbeFailed
from warehouse.tables import SCHEMAS, conform


@dataclass(frozen=True)
class Target:
    """Something that reads a file.

    `take` reads one as its users do; it returns, or raises one of `refusals`. `cpu_s` and
    `memory_mb` are what one input may take. `quick` is how many inputs a quick run takes. `whole`
    makes the seeds, unless `make` has them.
    """

    file_name: str
    make: Callable[[Random], bytes]
    take: Callable[[Path], object]
    refusals: tuple[type[Exception], ...] = (BadInput,)
    quick: int = 2000
    cpu_s: float = 3.0
    memory_mb: int = 768
    whole: Callable[[], Sequence[bytes]] | None = None

    def seeds(self) -> Sequence[bytes]:
        """Return whole files: each is taken without a complaint."""
        if self.whole is not None:
            return self.whole()
        assert isinstance(self.make, Mutator)
        return self.make.seeds


def _import(format_name: str, path: Path, *others: ReaderOptions) -> None:
    """Read as `stepcast import` does, but for `Format.read`, and check frames as landing does."""
    for options in (ReaderOptions(), *others):
        try:
            _read(format_name, path, options)
        except BadInput:
            if options is others[-1] if others else True:
                raise


def _read(format_name: str, path: Path, options: ReaderOptions) -> None:
    for run in FORMATS[format_name].reader(path, options):
        for name, frame in run.tables.items():
            if name not in SCHEMAS:
                raise BadInput(f"no table {name!r}")
            table = pa.table(frame)
            owner = pa.repeat(pa.scalar("r"), table.num_rows)
            conform(name, table.add_column(0, "run_id", owner), name)


def _csv(path: Path) -> None:
    mapping = path.with_name("mapping.yaml")
    if not mapping.exists():
        mapping.write_bytes(seeds.MAPPING[0])
    # The same mapping for all: to parse its YAML takes longer than all that is tried here.
    with patch.object(csv_table, "load", _parsed):
        _read("csv", path, ReaderOptions(mapping=mapping))


@cache
def _parsed(mapping: Path) -> CsvMapping:
    return csv_mapping.load(mapping)


def _mapping(path: Path) -> None:
    csv = path.with_name("file.csv")
    if not csv.exists():
        csv.write_bytes(seeds.CSV[0])
    _read("csv", csv, ReaderOptions(mapping=path))


def _capture(path: Path) -> None:
    control = path.with_name("control.pcap")
    if not control.exists():
        control.write_bytes(packets.CONTROL)
    capture.read(
        path,
        control=control,
        transfers=packets.TRANSFERS,
        sizes_bytes=packets.SIZES,
        step_times_us=[(0, 10_000)],
        keep_in=None,
    )


def _document(
    file_name: str, documents: Sequence[bytes], take: Callable[[Path], object], quick: int
) -> Target:
    # PyYAML takes 50 µs a value.
    make = Mutator(documents, values=YAML_VALUES, packed=False, most_bytes=1 << 15)
    return Target(file_name, make, take, (BadInput, UnknownNetwork), quick, cpu_s=10)


def _aws(operation: str, part: str, kind: type[AwsResponse], path: Path) -> None:
    """Read an answer of AWS as botocore and we do."""
    of = aws.model(operation)
    response = {"body": path.read_bytes(), "headers": {}, "status_code": 200}
    with explain_errors("AWS"):
        parser = create_parser(of.service_model.metadata["protocol"])
        listed = list(parser.parse(response, of.output_shape).get(part, ()))
    for _ in records(kind, iter(listed), operation):
        pass


def _answers(operation: str, part: str, kind: type[AwsResponse]) -> Target:
    """Return the answers to a question to AWS."""
    make = Mutator([aws.told(operation)], packed=False)
    return Target("answer", make, partial(_aws, operation, part, kind), (ProbeFailed,), quick=1000)


def _pcap(*files: bytes) -> Mutator:
    return Mutator(files, packets.split, values=(), of_format=(packets.field, packets.many))


TARGETS: Mapping[str, Target] = {
    "csv": Target("file.csv", Mutator(seeds.CSV), _csv, quick=200),
    "iperf3": Target("iperf3.json", Mutator(seeds.IPERF3), partial(_import, "iperf3")),
    "kineto": Target("trace.json", Mutator(seeds.KINETO), partial(_import, "kineto"), quick=600),
    "nccl-tests": Target(
        "nccl.log",
        Mutator(seeds.NCCL_TESTS),
        lambda path: _import("nccl-tests", path, ReaderOptions(world_size=2)),
        quick=800,
    ),
    "pcap": Target("a.pcap", _pcap(*packets.SEEDS), partial(_import, "pcap"), quick=400),
    "aws-types": _answers("DescribeInstanceTypes", "InstanceTypes", InstanceTypeInfo),
    "aws-spot": _answers("DescribeSpotPriceHistory", "SpotPriceHistory", SpotPrice),
    "aws-products": _answers("GetProducts", "PriceList", PriceListEntry),
    "capture": Target("steps.pcap", _pcap(*packets.TRACED), _capture, quick=400),
    "study": _document("study.yaml", seeds.STUDY, read_study, quick=400),
    "fleet": _document(
        "fleet.yaml",
        seeds.FLEET,
        lambda path: read_record(path, Fleet, "fleet file"),
        quick=600,
    ),
    "job": _document("job.yaml", seeds.JOB, read_job, quick=600),
    "mapping": _document("mapping.yaml", (*seeds.MAPPING, seeds.PRICES), _mapping, quick=400),
    "landing": Target(
        "landing.zip",
        landed.mutated,
        landed.load,
        quick=100,
        cpu_s=10,
        memory_mb=1024,
        whole=landed.seeds,
    ),
    "sets": Target(
        "sets.zip",
        packed_sets.mutated,
        packed_sets.load,
        quick=100,
        cpu_s=10,
        memory_mb=1024,
        whole=packed_sets.seeds,
    ),
}


def named(name: str) -> Target:
    """Return a target by name; `module:name` is one of another module.

    Raises:
        KeyError: there is none of that name.
    """
    module, _, other = name.partition(":")
    if other:
        target = getattr(import_module(module), other)
        assert isinstance(target, Target)
        return target
    return TARGETS[name]
