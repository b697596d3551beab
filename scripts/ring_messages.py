"""Print what TensorFlow's ring takes for each million of gradients, by the size of its messages.

Two processes on this host, memory kept as on nodes of steady cores; docs/ceer.md says why.

Usage: python scripts/ring_messages.py [MILLIONS …]
"""

import os
import resource
import subprocess
import sys
import time
from typing import Any

from profilers.clusters.emulated import STEADY_MEMORY
from profilers.nodes.tf_stepper import session_config, start_server

DEVICES = 2
MILLIONS = ("20", "24.8", "25.2", "30", "36")
PORT = 23450
ROUNDS, REDUCES = 4, 6
"""Sizes are taken in turn, and the last round counts: by then, memory is not new to the process."""


def main() -> None:
    """Start the processes and wait for them."""
    environment = {**os.environ, **STEADY_MEMORY, "TF_CPP_MIN_LOG_LEVEL": "3"}
    millions = sys.argv[1:] or list(MILLIONS)
    if not all(size.replace(".", "", 1).isdigit() for size in millions):
        sys.exit(f"sizes are millions of gradients, like 24.8; found {' '.join(millions)}")
    command = [sys.executable, __file__, "--member"]
    members = [
        subprocess.Popen([*command, str(index), *millions], env=environment, stdin=subprocess.PIPE)
        for index in range(DEVICES)
    ]
    try:
        members[0].wait()
    finally:
        for one in members:
            one.kill()
            one.wait()
    sys.exit(members[0].returncode)


def member(index: int, millions: list[float]) -> None:
    """Reduce vectors of each size with the other processes; the first prints what that took."""
    import tensorflow.compat.v1 as tf

    tf.disable_v2_behavior()
    config = session_config(threads=1, inter_op_threads=1)
    config.experimental.collective_group_leader = "/job:worker/replica:0/task:0"
    device = f"/job:worker/task:{index}"
    config.device_filters.append(device)
    addresses = [f"127.0.0.1:{PORT + each}" for each in range(DEVICES)]
    server = start_server({"worker": addresses}, "worker", index, config)
    with tf.device(device):
        reduces = [_all_reduce(tf, key, int(size * 1e6)) for key, size in enumerate(millions)]
    session = tf.Session(server.target, config=config)
    for number in range(ROUNDS):
        for size, reduce in zip(millions, reduces, strict=True):
            cpu_s, faults = time.process_time(), _faults()
            for _ in range(REDUCES):
                session.run(reduce)
            cpu_ms = (time.process_time() - cpu_s) * 1e3 / REDUCES / size
            new_pages = (_faults() - faults) / REDUCES / size
            if index == 0 and number == ROUNDS - 1:
                sys.stdout.write(
                    f"{size:5.1f} million gradients, messages of {4 * size / DEVICES:5.1f} MB: "
                    f"{cpu_ms:5.1f} ms of processor time, {new_pages:5.0f} page faults a million\n"
                )
                sys.stdout.flush()
    if index:
        sys.stdin.read()  # until the maker ends
    os._exit(0)  # a server cannot be stopped


def _all_reduce(tf: Any, key: int, count: int) -> Any:
    ones = tf.fill([count], 1.0)
    return tf.raw_ops.CollectiveReduce(
        input=ones,
        group_size=DEVICES,
        group_key=1,
        instance_key=1 + key,
        merge_op="Add",
        final_op="Div",
        subdiv_offsets=[0],
        communication_hint="ring",
    ).op


def _faults() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt


if __name__ == "__main__":
    if sys.argv[1:2] == ["--member"]:
        member(int(sys.argv[2]), [float(size) for size in sys.argv[3:]])
    else:
        main()
