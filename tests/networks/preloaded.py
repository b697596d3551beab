"""Traces of users' models by forks of a process that has imported PyTorch and transformers.

To import them takes longer than to trace a small model. `python -P preloaded.py SERVER` serves;
in the place of `networks/own_program.py` this file asks it, and ends as the fork does.
"""

import json
import os
import resource
import runpy
import signal
import socket
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

_SERVER = "PRELOADED_SERVER"
_LIMITS = resource.RLIMIT_DATA, resource.RLIMIT_CPU
_MODULES = (
    "scipy.optimize",
    "torch._dynamo",
    "transformers.models.auto",
    "transformers.modeling_utils",
)
_PROGRAM = Path(__file__).parents[2] / "networks/own_program.py"


def served(folder: Path) -> Iterator[dict[str, str]]:
    """Yield what `asking` needs in its environment, while a server runs."""
    from warehouse.child_process import bound

    address = str(folder / "server")
    program = bound([sys.executable, "-P", __file__, address])
    with subprocess.Popen(program, cwd=folder) as server:
        while not Path(address).exists():
            assert server.poll() is None
            time.sleep(0.05)
        yield {_SERVER: address}
        server.kill()


def ask(request: str) -> None:
    """Have a fork do what this process was started for; it ends with this process."""
    asked = {
        "request": request,
        "folder": str(Path.cwd()),
        "environment": {**os.environ},
        "limits": [resource.getrlimit(limit) for limit in _LIMITS],
    }
    with socket.socket(socket.AF_UNIX) as server:
        server.connect(os.environ[_SERVER])
        socket.send_fds(server, [b"."], [1, 2])
        server.sendall(json.dumps(asked).encode() + b"\n")
        os._exit(int(server.recv(9) or 1))


def serve(address: str) -> None:
    """Fork for each who asks."""
    for module in _MODULES:
        import_module(module)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(f"{address}.")
        listening.listen(16)
        os.rename(f"{address}.", address)
        while True:
            asking, _ = listening.accept()
            if os.fork() == 0:
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                listening.close()
                trace(asking)
            asking.close()


def trace(asking: socket.socket) -> None:
    """Do what was asked for, in a process that is like the one that asks."""
    _, (out, err), *_ = socket.recv_fds(asking, 1, 2)
    with asking.makefile() as lines:
        asked = json.loads(lines.readline())
    os.dup2(out, 1)
    os.dup2(err, 2)
    os.chdir(asked["folder"])
    os.environ.clear()
    os.environ.update(asked["environment"])
    for limit, values in zip(_LIMITS, asked["limits"], strict=True):
        resource.setrlimit(limit, values)
    threading.Thread(target=lambda: asking.recv(1) or os._exit(1), daemon=True).start()
    sys.argv = [str(_PROGRAM), asked["request"]]
    code = 1
    try:
        runpy.run_path(str(_PROGRAM))["main"]()
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        asking.sendall(str(code).encode())
        os._exit(code)


if __name__ == "__main__":
    (ask if sys.argv[1].startswith("{") else serve)(sys.argv[1])
