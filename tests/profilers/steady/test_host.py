"""What a host says of itself."""

from datetime import UTC, datetime
from pathlib import Path

from profilers.steady import host


def test_a_start_of_the_host_is_told_and_is_no_other_host() -> None:
    told = host.description()
    assert told["boot_id"] == Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    booted_at = datetime.fromisoformat(told["booted_at"])
    up_s = float(Path("/proc/uptime").read_text().split()[0])
    assert abs((datetime.now(UTC) - booted_at).total_seconds() - up_s) < 60
    assert not {"boot_id", "booted_at", "kernel"} & host.hardware().keys()
