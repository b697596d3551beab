"""What an instance is told at its start, and what its console says: its end, its host keys.

The console is the one channel that nobody between us and the instance can write to: AWS brings it.
"""

import re

from profilers.renting.book import Intent

MARKER = "stepcast-host-key"
_KEY = re.compile(
    r"(ssh-ed25519|ssh-rsa|ecdsa-sha2-nistp(?:256|384|521)) ([A-Za-z0-9+/]{32,4096}={0,2})"
)
MOST_KEYS = 10


def minutes(intent: Intent) -> int:
    """Return after how many minutes an instance of a launch shuts itself down."""
    return max(int(60 * intent.hours + 1e-6), 1)


def script(intent: Intent) -> str:
    """Return the user data of a launch: the same for each attempt at it, as its token wants.

    An instance that cannot set its shutdown shuts down at once.
    """
    return f"""#!/bin/sh
shutdown -P +{minutes(intent)} || shutdown -P now
for key in /etc/ssh/ssh_host_*_key.pub; do
    echo "{MARKER} {intent.token} $(cut -d' ' -f1,2 "$key")" > /dev/console
done
"""


def host_keys(console: str, token: str) -> tuple[str, ...]:
    """Return the host keys that an instance has printed for a launch, as known_hosts has them."""
    found = re.finditer(rf"{MARKER} {re.escape(token)} {_KEY.pattern}(?=\s)", console)
    keys = dict.fromkeys(f"{one[1]} {one[2]}" for one in found)
    return tuple(keys)[:MOST_KEYS]
