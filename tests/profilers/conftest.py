"""What tests that measure share."""

from collections.abc import Iterator

import pytest

from profilers.steady.hostlock import host_lock


@pytest.fixture
def alone() -> Iterator[None]:
    """Queue up behind whatever measures on this host."""
    with host_lock():
        yield
