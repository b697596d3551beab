"""Operation graphs in a program that must not load a framework: a child process extracts them."""

import json
import os
import subprocess
import sys
from dataclasses import asdict
from functools import lru_cache
from pathlib import Path

from networks.catalogue import check
from networks.operation_graph import GraphOperation, OperationGraph, operation_graph

_TIMEOUT_S = 900.0


@lru_cache(maxsize=64)
def extracted(dnn: str, batch_size: int, image_size: int) -> OperationGraph:
    """Return `operation_graph` of a network; asked again for the same, it is at hand.

    Takes some seconds to load TensorFlow, and for networks of thousands of operations some more.

    Raises:
        UnknownNetwork: no network has that name.
        ValueError: the images are too small for the network.
        RuntimeError: the child process failed; the message has the end of what it wrote.
    """
    check(dnn, image_size)
    environment = {
        **os.environ,
        "PYTHONPATH": str(Path(__file__).parents[1]),
        "TF_CPP_MIN_LOG_LEVEL": "2",
        "TF_USE_LEGACY_KERAS": "1",
    }
    command = [sys.executable, "-m", "networks.extraction", dnn, str(batch_size), str(image_size)]
    child = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False
    )
    if child.returncode:
        *_, last = child.stderr.strip().splitlines() or ["it wrote nothing"]
        raise RuntimeError(f"the graph of {dnn} could not be extracted: {last}")
    # TensorFlow may write lines of its own before.
    return _from_json(child.stdout.splitlines()[-1])


def _from_json(text: str) -> OperationGraph:
    fields = json.loads(text)
    operations = tuple(GraphOperation(**one) for one in fields.pop("operations"))
    return OperationGraph(**fields, operations=operations)


def main() -> None:
    """Write the graph that the command line names to stdout, as a line of JSON."""
    import tensorflow.compat.v1 as tf1

    tf1.disable_v2_behavior()
    dnn, batch_size, image_size = sys.argv[1:]
    sys.stdout.write(json.dumps(asdict(operation_graph(dnn, int(batch_size), int(image_size)))))


if __name__ == "__main__":
    main()
