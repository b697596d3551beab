"""Small whole files of every text format, of our own making."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

_PUBLIC = Path(__file__).parents[1] / "profilers" / "readers" / "public"
_MOST = 2**63 - 1
"""One below what no column holds."""


def _json(value: object) -> bytes:
    return json.dumps(value).encode()


def _event(category: str, name: str, start: float, duration: float, **args: object) -> Any:
    on_gpu = category in ("kernel", "gpu_memcpy")
    return {
        "ph": "X",
        "cat": category,
        "name": name,
        "pid": 0 if on_gpu else 100,
        "tid": 7 if on_gpu else 101,
        "ts": start,
        "dur": duration,
        "args": args,
    }


def _kineto_step(number: int, start: float) -> list[Any]:
    shapes = {"Input Dims": [[4, 8], [], [[2], [3]]], "Input type": ["float", "Scalar", ""]}
    return [
        _event("user_annotation", f"ProfilerStep#{number}", start, 90.0),
        _event("cpu_op", "aten::linear", start + 10, 50.0),
        _event("cpu_op", "aten::addmm", start + 10, 30.0, **shapes),
        _event("cuda_runtime", "cudaLaunchKernel", start + 20, 5.0, correlation=number),
        _event("kernel", "sgemm", start + 85, 4.5, correlation=number),
        _event("gpu_memcpy", "Memcpy HtoD", start + 86, 2.0, correlation=number, bytes=4096),
    ]


KINETO = (
    _json(
        {
            "schemaVersion": 1,
            "deviceProperties": [{"id": 0, "name": "GPU"}],
            "distributedInfo": {"backend": "nccl", "rank": 1, "world_size": 2},
            "baseTimeNanoseconds": 1_700_000_000_000_000_000,
            "traceEvents": [
                {"ph": "M", "name": "process_name", "pid": 100, "args": {"name": "python"}},
                *_kineto_step(7, 100),
                *_kineto_step(8, 200),
            ],
        }
    ),
    _json({"traceEvents": [_event("cpu_op", "aten::relu", 5.0, 3.0), *_kineto_step(0, 10)[1:]]}),
    _json([_event("Operator", "aten::relu", 5.0, 3.0), _event("Kernel", "relu", 6.0, 1.0)]),
    _json(
        [
            _event("cpu_op", "a", 1, 2, correlation=_MOST, **{"Input Dims": [[1, _MOST]]}),
            _event("kernel", "k", 1, 2, correlation=_MOST, bytes=_MOST, stream=7, device=0),
        ]
    ),
    (_PUBLIC / "kineto-unknown-device-category.json").read_bytes(),
)


def _iperf3(*sends: bool, reverse: int = 0) -> Any:
    def sums(sent: bool, size: int) -> Any:
        figures = {"start": 0, "end": 2.0, "seconds": 2.0, "bytes": size}
        return {**figures, "bits_per_second": size * 4.0, "sender": sent}

    return {
        "start": {
            "connected": [{"socket": 5, "local_host": "10.0.0.1", "remote_host": "10.0.0.2"}],
            "version": "iperf 3.12",
            "system_info": "Linux a 6.1",
            "timestamp": {"time": "Tue, 14 Nov 2023 22:13:20 GMT", "timesecs": 1_700_000_000},
            "test_start": {"protocol": "TCP", "num_streams": 1, "duration": 2, "reverse": reverse},
        },
        "intervals": [{"streams": [sums(True, 600)], "sum": sums(True, 600)}],
        "end": {
            "streams": [
                {"sender": {**sums(sent, 1200), "retransmits": 3}, "receiver": sums(sent, 1000)}
                for sent in sends
            ],
            "sum_sent": sums(True, 1200 * len(sends)),
            "sum_received": sums(True, 1000 * len(sends)),
            "sender_tcp_congestion": "cubic",
        },
    }


def _streamed(report: Any) -> bytes:
    events = [("start", report["start"]), ("interval", report["intervals"][0])]
    return b"\n".join(
        _json({"event": name, "data": data}) for name, data in (*events, ("end", report["end"]))
    )


IPERF3 = (
    _json(_iperf3(True, True)),
    _json(_iperf3(False, reverse=1)) + b"\n" + _json(_iperf3(True, False)),
    json.dumps(_iperf3(True), indent=1).encode(),
    _streamed(_iperf3(True)),
    (_PUBLIC / "iperf3-receiver-seconds.json").read_bytes(),
)

_RANKS = """\
# nThread 1 nGpus 2 minBytes 1024 maxBytes 4000000 step: 2(factor) warmup iters: 5 iters: 20
#
# Using devices
#  Rank  0 Group  0 Pid  11 on node-a device  0 [0000:07:00] GPU 40GB
#  Rank  1 Group  0 Pid  12 on node-a device  1 [0000:46:00] GPU 40GB
#
"""
_NCCL = f"""\
# nccl-tests version 2.17.6 nccl-headers=22809 nccl-library=22809
# Collective test starting: all_reduce_perf
{_RANKS}\
#                                     out-of-place                  in-place
#    size   count  type redop root   time  algbw  busbw #wrong   time  algbw  busbw #wrong
#     (B) (elements)                 (us) (GB/s) (GB/s)          (us) (GB/s) (GB/s)
     1024     256 float   sum   -1  20.00   0.05   0.05      0  10.00   0.10   0.10    N/A
  4000000 1000000 float   sum   -1 400.00  10.00  10.00      0 500.00   8.00   8.00      3
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 4.5
"""
_NCCL_OLD = """\
# NCCL Tests compiled with NCCL 2.0
# Using devices
#   Rank  0 on node-a device  0 [0x04] GPU X
#   Rank  1 on node-a device  1 [0x05] GPU X

#                                   out-of-place              in-place
#     bytes        N   type   op   time  algbw  busbw    res   time  algbw  busbw    res
   10000000  2500000  float  sum  2.500   4.00   4.00  1e-06  2.000   5.00   5.00  2e-06
"""
_PLACE = {"time": 400.0, "alg_bw": 10.0, "bus_bw": 10.0, "nwrong": 0}
_NCCL_JSON = {
    "version": 1,
    "args": ["./build/all_reduce_perf", "-b", "8"],
    "nccl_version": 22809,
    "config": {
        "nthreads": 1,
        "ngpus": 1,
        "devices": [
            {"group": 0, "rank": rank, "pid": 11, "hostname": "a", "device_info": "GPU"}
            for rank in (0, 1)
        ],
    },
    "results": [
        {
            "size": 4_000_000,
            "count": 1_000_000,
            "type": "float",
            "redop": "sum",
            "root": -1,
            "out_of_place": _PLACE,
            "in_place": _PLACE,
        }
    ],
    "out_of_bounds": {"out_of_bounds_count": 0, "okay": True},
    "average_bus_bandwidth": {"bandwidth": 10.0},
}
NCCL_TESTS: Sequence[bytes] = (
    _NCCL.encode(),
    _NCCL_OLD.encode(),
    "".join(f"[1,0]<stdout>:{line}\n" for line in _NCCL.splitlines()).encode(),
    _json(_NCCL_JSON),
    (_PUBLIC / "nccl-no-type-columns.log")
    .read_bytes()
    .replace(b"Rank  2", b"other")
    .replace(b"Rank  3", b"other")
    .replace(b"1.87", b"1.25"),
)

CSV = (
    b"model,n,xla,ms,at,host\nvgg,2.0,True,1.1,2024-01-01T00:00:00Z,a1\nalex,1,,,2024-01-02T00:00:00Z,b2\n",
    b"model,n,xla,ms,at,host\nvgg,1024,True,1028.5,2024-01-01T00:00:00Z,a1\n",
)
MAPPING = (
    b"""\
table: external
source: somebody
runs: [host]
host: {machine: host}
columns:
  subject:
    subject:
      {dnn: model, workers: {column: n, type: integer}, xla: {column: xla, type: flag}}
  unit: {constant: s}
rows:
  - {metric: {constant: step_time_s}, value: {column: ms, factor: 0.001}}
  - {metric: {constant: letters}, value: {column: host, type: real, pattern: "([0-9]+)"}}
""",
)
PRICES = b"""\
table: price
source: somebody
columns:
  provider: {constant: aws}
  node_type: model
  region: host
  market: {constant: spot}
  usd_per_hour: {column: n, type: real}
  observed_at: {column: at, type: time}
  zone: {constant: null}
  source: {constant: x}
"""

STUDY = (
    b"""\
name: demo
description: Asynchronous SGD.
backend: auto
probes:
  links: {flows: [1, 4], seconds: 2, trials: 2}
  tf_trace: {traced_steps: 40, untraced_steps: 30, capture: true}
  tf_throughput: {windows: 2, window_s: 6}
again: {fraction: 0.5, seed: 20}
test:
  - dnn: [small_cnn, alexnet]
    image_size: 64
    batch_size: [8, 16]
    worker: [emu.native.c25, emu.native.s25 + emu.native.s15]
    server: emu.server
    servers: 2
    placement: greedy
    order: tic
    link_mbps: 200
    profiled_at_mbps: 100
    cross_traffic: 0.1
    workers: [1, 2, 3, 4]
""",
    b"""\
name: lab
systems: [srift, ideal_scaling]
probes:
  links: {flows: [1], seconds: 1, trials: 1}
  allreduce: {sizes_bytes: [512, 65536], world_sizes: [2], trials: 1}
  torch_compute: {batch_sizes: [2, 4], held_out: [3], trials: 2, interval: 0.04, most_s: 9}
  slowdown: {networks: [small_cnn], batch_size: 2}
  torch_throughput: {iterations: 20, interval: 0.02, most_s: 24}
test:
  - {dnn: small_cnn, image_size: 16, batch_size: 2, worker: emu.native.c25, framework: pytorch,
     strategy: all_reduce, link_mbps: [100, 200], workers: [1, 2]}
  - {dnn: small_cnn, image_size: 16, framework: pytorch, strategy: all_reduce, link_mbps: 100,
     mix: 2 emu.avx512.s15@16 + 4 emu.sse41.s15@8}
""",
    b"""\
name: operations
probes:
  tf_operations: {traced_steps: 4, untraced_steps: 4, test: true}
  tf_sync: {windows: 2, window_s: 1}
train:
  - {dnn: [alexnet, vgg11], strategy: all_reduce, image_size: 64, batch_size: 4,
     worker: [emu.avx2.s40, emu.avx512.s40], link_mbps: 800, workers: [1, 2]}
test:
  - {dnn: small_cnn, strategy: all_reduce, image_size: 24, batch_size: 4, worker: emu.avx2.s40,
     devices_per_node: 1, link_mbps: 800, workers: 2}
""",
)
FLEET = (
    b"""\
python: python3
ssh: ["-i", key]
interface: eth0
node_types:
  lab.xeon: {threads: 16, memory_bytes: 1000000}
machines:
  - {node_type: lab.xeon, address: 10.0.0.1}
  - {node_type: lab.xeon, address: 10.0.0.2, host: b, port: 2222}
ec2:
  region: eu-west-1
  image: ami-1
  key_name: key
  subnet: subnet-1
  security_groups: [sg-1]
  spot: true
""",
)
JOB = (
    b"""\
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
  - {node_type: emu.native.c15, market: spot, usd_per_hour: 0.040, capacity: 2}
launch_s: 10
interruptions:
  - {after_iterations: 100, node_type: emu.native.c25, how: kill}
""",
)
