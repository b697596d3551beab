"""A program as `profilers.nodes.programs` starts them: echoes, fails or dies as told."""

import json
import os
import signal
import sys

for line in sys.stdin:
    command = json.loads(line)
    match command["do"]:
        case "echo":
            print(json.dumps({"event": "noise"}), flush=True)  # noqa: T201
            print(json.dumps({"event": "echoed", "back": command["words"]}), flush=True)  # noqa: T201
        case "fail":
            sys.exit("what went wrong")
        case "half":
            print('{"event": "ec', end="", flush=True)  # noqa: T201
            os.kill(os.getpid(), signal.SIGKILL)
        case "die":
            os.kill(os.getpid(), signal.SIGKILL)
        case "chatter":
            print(command["line"], flush=True)  # noqa: T201
