"""What is fuzzed: every reader of foreign bytes, with seeds, mutations and limits of its own."""

import json
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, partial
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
from profilers.readers import csv_mapping, csv_table
from profilers.readers.contract import ReaderOptions
from profilers.readers.csv_mapping import CsvMapping
from profilers.readers.formats import FORMATS
from profilers.record_file import read_record
from studies.study import read_study
from tests import aws
from tests.fuzz.mutation import YAML_VALUES, Mutator
from tests.profilers.readers import test_capture, test_iperf3, test_kineto, test_nccl_tests, wire
from tests.profilers.readers.test_pcap import TCP
from warehouse.records import BadInput, ProbeFailed
from warehouse.tables import SCHEMAS, conform

_PROJECT = Path(__file__).parents[2]
_PUBLIC = _PROJECT / "tests" / "profilers" / "readers" / "public"


@dataclass(frozen=True)
class Target:
    """Something that reads a file.

    `take` reads one as its users do; it returns, or raises one of `refusals`. `cpu_s` and
    `memory_mb` are what one input may take. `quick` is how many inputs a test takes. Each of
    `seeds` is taken without a complaint.
    """

    file_name: str
    seeds: Sequence[bytes]
    make: Callable[[Random], bytes]
    take: Callable[[Path], object]
    refusals: tuple[type[Exception], ...] = (BadInput,)
    quick: int = 400
    cpu_s: float = 3.0
    memory_mb: int = 768


def _read(format_name: str, path: Path, options: ReaderOptions | None = None) -> None:
    """Read as `stepcast import` does, but for `Format.read`, and check frames as landing does."""
    for run in FORMATS[format_name].reader(path, options or ReaderOptions()):
        for name, frame in run.tables.items():
            if name not in SCHEMAS:
                raise BadInput(f"no table {name!r}")
            table = pa.table(frame)
            owner = pa.repeat(pa.scalar("r"), table.num_rows)
            conform(SCHEMAS[name], table.add_column(0, "run_id", owner), name)


def _nccl_tests(path: Path) -> None:
    with suppress(BadInput):
        _read("nccl-tests", path, ReaderOptions(world_size=2))
    _read("nccl-tests", path)


_CSV = b"model,n,xla,ms,at,host\nvgg,2.0,True,1028.5,2024-01-01T00:00:00Z,a1\nalex,1,,,,b2\n"
_MAPPING = b"""\
table: external
source: somebody
runs: [host]
host: {machine: host}
only: {model: "^[a-z]"}
columns:
  subject:
    subject:
      {dnn: model, workers: {column: n, type: integer}, xla: {column: xla, type: flag}}
  unit: {constant: s}
rows:
  - {metric: {constant: step_time_s}, value: {column: ms, factor: 0.001}}
  - {metric: {constant: letters}, value: {column: host, type: real, pattern: "([0-9]+)"}}
"""


@cache
def _parsed(mapping: Path) -> CsvMapping:
    return csv_mapping.load(mapping)


def _csv(path: Path) -> None:
    mapping = path.with_name("mapping.yaml")
    mapping.write_bytes(_MAPPING)
    # The same mapping for all: to parse its YAML takes longer than all that is tried here.
    with patch.object(csv_table, "load", _parsed):
        _read("csv", path, ReaderOptions(mapping=mapping))


def _mapping(path: Path) -> None:
    csv = path.with_name("file.csv")
    csv.write_bytes(_CSV)
    _read("csv", csv, ReaderOptions(mapping=path))


_FLEET = b"""\
python: python3
ssh: ["-i", key]
node_types: {lab.xeon: {threads: 16, memory_bytes: 1000000}}
machines: [{node_type: lab.xeon, address: 10.0.0.2, host: b, port: 2222}]
ec2:
  {region: eu-west-1, image: ami-1, key_name: key, subnet: subnet-1, security_groups: [sg-1]}
"""
_JOB = b"""\
name: demo
dnn: small_cnn
image_size: 16
samples: 1000
global_batch: 32
iterations: 200
minimize: cost
deadline_s: 300
link_mbps: 200
profile: profile.json
offers:
  - {node_type: emu.native.c25, market: spot, usd_per_hour: 0.060, capacity: 2}
interruptions:
  - {after_iterations: 100, node_type: emu.native.c25, how: kill}
"""


def _pcap_files() -> tuple[Sequence[bytes], Sequence[bytes]]:
    """Return captures of others, and of a traced step: what it began with, then the step."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "a.pcap")
        snaps = 2**18, 54 + 20
        others = [wire.write(file, TCP, snap=snap).read_bytes() for snap in snaps]
        return others, [path.read_bytes() for path in test_capture.files(Path(folder))]


_OTHERS, (_STEP, _OPENING) = _pcap_files()


def _packets(content: bytes) -> list[bytes]:
    """Cut into the header of the file and its records, as far as their lengths hold."""
    order = "little" if content[:1] in b"\xd4\x4d" else "big"
    parts, at = [content[:24]], 24
    while at < len(content):
        size = int.from_bytes(content[at + 8 : at + 12], order)  # type: ignore[arg-type]
        parts.append(content[at : at + 16 + min(size, len(content))])
        at += len(parts[-1])
    return parts


def _capture(path: Path) -> None:
    control = path.with_name("control.pcap")
    control.write_bytes(_OPENING)
    test_capture.read(path, control)


def _target(
    file_name: str, seeds: Sequence[bytes], take: Callable[[Path], object], quick: int = 400
) -> Target:
    return Target(file_name, seeds, Mutator(seeds), take, quick=quick)


def _pcap(seeds: Sequence[bytes], take: Callable[[Path], object]) -> Target:
    return Target("a.pcap", seeds, Mutator(seeds, _packets, values=()), take)


def _document(seeds: Sequence[bytes], take: Callable[[Path], object]) -> Target:
    # PyYAML takes 50 µs a value.
    make = Mutator(seeds, values=YAML_VALUES, packed=False, most_bytes=1 << 15)
    return Target("file.yaml", seeds, make, take, (BadInput, UnknownNetwork), cpu_s=10)


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
    seeds = [aws.told(operation)]
    take = partial(_aws, operation, part, kind)
    return Target("answer", seeds, Mutator(seeds, packed=False), take, (ProbeFailed,), quick=1000)


def _json(*documents: object) -> list[bytes]:
    return [json.dumps(document).encode() for document in documents]


TARGETS: Mapping[str, Target] = {
    "csv": _target("file.csv", [_CSV], _csv, quick=200),
    "iperf3": _target(
        "iperf3.json",
        [
            (_PUBLIC / "iperf3-receiver-seconds.json").read_bytes(),
            b"\n".join(_json(test_iperf3.report(False, reverse=1), test_iperf3.report(True, True))),
        ],
        partial(_read, "iperf3"),
        quick=2000,
    ),
    "kineto": _target(
        "trace.json",
        [
            (_PUBLIC / "kineto-unknown-device-category.json").read_bytes(),
            *_json({"distributedInfo": {"rank": 1}, "traceEvents": test_kineto.step(7, 100, 4.5)}),
            *_json([test_kineto.event("gpu_memcpy", "m", 1, 2, correlation=2**63 - 1, bytes=8)]),
        ],
        partial(_read, "kineto"),
        quick=600,
    ),
    "nccl-tests": _target(
        "nccl.log",
        [
            test_nccl_tests.NEW.encode(),
            "".join(f"[1,0]<stdout>:{line}\n" for line in test_nccl_tests.NEW.split("\n")).encode(),
        ],
        _nccl_tests,
        quick=800,
    ),
    "pcap": _pcap(_OTHERS, partial(_read, "pcap")),
    "capture": _pcap([_STEP], _capture),
    "aws-types": _answers("DescribeInstanceTypes", "InstanceTypes", InstanceTypeInfo),
    "aws-spot": _answers("DescribeSpotPriceHistory", "SpotPriceHistory", SpotPrice),
    "aws-products": _answers("GetProducts", "PriceList", PriceListEntry),
    "study": _document(
        [(_PROJECT / f"studies/{name}.yaml").read_bytes() for name in ("demo", "reference_ddp")],
        read_study,
    ),
    "fleet": _document([_FLEET], lambda path: read_record(path, Fleet, "fleet file")),
    "job": _document([_JOB], read_job),
    "mapping": _document([_MAPPING], _mapping),
}
