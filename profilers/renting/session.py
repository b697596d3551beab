"""A program of an instance that is reached by SSM, as a process of this machine stands for it.

Started as `python -m profilers.renting.session REACH COMMAND`, as `ssh` would be: it runs a command
of the instance's shell, relays stdin, stdout and stderr, and ends as the command does. When it is
killed, a process that watches it ends the command; when both are, the command's errand does, once
it has heard nothing for a while.
"""

import os
import secrets
import signal
import sys
import time
import urllib.error
from collections.abc import Sequence
from contextlib import suppress

from profilers.nodes.mailbox import Exchange, ObjectGone, pack_object, send
from profilers.renting.ssm import Reach, Ssm, Urls
from warehouse.records import ProbeFailed, StepcastError

FAILED = 255
"""Exit code where the command cannot be reached, as of ssh."""
DONE = b"."
RENEW_S = 300.0
"""How often URLs are renewed: those of temporary credentials end with them."""
START_S = 120.0
"""How long an instance may take until it has begun."""
ATTEMPTS = 5
_LOOK_S, _END_S = 2.0, 15.0


def main(words: Sequence[str]) -> int:
    """Run a command; return its exit code, or end by the signal that killed it."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # as ssh ends, without a trace
    reach, command = Reach.model_validate_json(words[0]), words[1]
    token = secrets.token_hex(16)
    watcher = _watched(reach, token)
    try:
        code = _run(Ssm(reach.region), reach, token, command, watcher)
    except (StepcastError, OSError) as error:
        sys.stderr.write(f"{reach.instance} cannot be reached: {error}\n")
        return FAILED
    os.write(watcher, DONE)
    if code == -signal.SIGKILL:
        # As whoever asks knows a lack of memory.
        os.kill(os.getpid(), signal.SIGKILL)
    return code if code >= 0 else 128 - code


def _watched(reach: Reach, token: str) -> int:
    """Start the process that ends the command if this one ends early; return a pipe to it."""
    read_end, write_end = os.pipe()
    if os.fork():
        os.close(read_end)
        return write_end
    os.close(write_end)
    os.setsid()
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nothing, descriptor)
    heard = b""
    while piece := os.read(read_end, 1 << 10):
        heard += piece
    if not heard.endswith(DONE):
        with suppress(StepcastError, OSError):
            end(Ssm(reach.region), reach, token, heard.decode())
    os._exit(0)


def end(ssm: Ssm, reach: Reach, token: str, command: str) -> None:
    """End an errand whose controller is gone, and remove its objects.

    Args:
        ssm: of its region.
        reach: of its instance.
        token: its name.
        command: the id of the command that starts it, if it is known.
    """
    urls = ssm.signed(reach, token)
    exchange = Exchange(urls.here, reach.silence_s, {}, {})
    send(urls.here["ours"], "PUT", pack_object({"stop": True, "beat": token}, {}))
    if command:
        ssm.cancel(reach, command)
    deadline_s = time.monotonic() + _END_S
    while "code" not in exchange.heard and time.monotonic() < deadline_s:
        time.sleep(0.2)
        with suppress(OSError, ValueError):
            exchange.fetch()
    _removed(urls)


def _run(ssm: Ssm, reach: Reach, token: str, command: str, watcher: int) -> int:
    urls = _made(ssm, reach, token, command)
    pipes = {"stdout": os.dup(1), "stderr": os.dup(2)}
    exchange = Exchange(urls.here, reach.silence_s, {"stdin": 0}, pipes)
    exchange.said["command"] = command
    started = ssm.start(reach, token, urls.there)
    os.write(watcher, started.encode())
    _begun(ssm, reach, started, exchange)
    del exchange.said["command"]
    code = _relayed(ssm, reach, token, exchange)
    exchange.said["stop"] = True
    with suppress(OSError):
        exchange.post()
    for stream in exchange.incoming.values():
        stream.close(within_s=reach.life_s)
    _removed(urls)
    return code


def _made(ssm: Ssm, reach: Reach, token: str, command: str) -> Urls:
    """Make the objects of an errand, before anybody reads them; return their URLs.

    Raises:
        ProbeFailed: the bucket cannot be written.
    """
    for attempt in range(ATTEMPTS):
        urls = ssm.signed(reach, token, fresh=attempt > 0)
        try:
            send(urls.first, "PUT", pack_object({"beat": 0}, {}))
            send(urls.here["ours"], "PUT", pack_object({"beat": 0, "command": command}, {}))
            return urls
        except OSError as error:
            why = error
        time.sleep(0.2 * 2**attempt)
    raise ProbeFailed(
        f"bucket {reach.bucket} cannot be written in {reach.region}: {why}; docs/ec2.md says which "
        "rights that needs"
    )


def _begun(ssm: Ssm, reach: Reach, started: str, exchange: Exchange) -> None:
    """Wait until the errand says its first word.

    Raises:
        ProbeFailed: it could not be started, or not in time.
    """
    deadline_s, look_at_s = time.monotonic() + START_S, time.monotonic() + _LOOK_S
    while not exchange.heard.get("beat"):
        with suppress(OSError):
            _turned(exchange)
        if time.monotonic() > look_at_s:
            ssm.check_started(reach, started)
            look_at_s = time.monotonic() + _LOOK_S
        if time.monotonic() > deadline_s:
            raise ProbeFailed(f"its program has not begun in {START_S:g} s")


def _relayed(ssm: Ssm, reach: Reach, token: str, exchange: Exchange) -> int:
    """Relay until the program has ended and all it wrote is here; return how it ended.

    Raises:
        ProbeFailed: nothing more is heard.
    """
    renew_at_s, why = time.monotonic() + RENEW_S, "no word"
    while True:
        try:
            _turned(exchange)
        except OSError as error:
            why = str(error)
            is_refused = isinstance(error, urllib.error.HTTPError) and error.code in (400, 403)
            renew_at_s = 0.0 if is_refused else renew_at_s
        code = exchange.heard.get("code")
        if type(code) is int and all(stream.is_over for stream in exchange.incoming.values()):
            return code
        if exchange.is_silent:
            raise ProbeFailed(f"nothing heard for {reach.silence_s:g} s: {why}")
        if time.monotonic() > renew_at_s:
            with suppress(ProbeFailed):
                urls = ssm.signed(reach, token, fresh=renew_at_s == 0.0)
                exchange.urls, exchange.said["urls"] = urls.here, urls.there
            renew_at_s = time.monotonic() + RENEW_S


def _turned(exchange: Exchange) -> None:
    """Read and write once.

    Raises:
        OSError: that cannot be done now.
        ProbeFailed: the other side says what nobody understands, or its object is gone.
    """
    try:
        exchange.turn()
    except ObjectGone:
        raise ProbeFailed("its objects were removed from the bucket") from None
    except ValueError as error:
        raise ProbeFailed(f"told {error}") from None


def _removed(urls: Urls) -> None:
    """Remove the objects of an errand; the bucket's own rule removes what is left."""
    for url in urls.removal:
        with suppress(OSError):
            send(url, "DELETE")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
