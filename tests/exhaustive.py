"""Parameters that only `make test-all` tries: others of their kind find what they find."""

from typing import Any

import pytest


def exhaustive(*cases: Any) -> list[Any]:
    """Return values of a parameter, or tuples of values of several, marked `exhaustive`."""
    return [
        pytest.param(*case, marks=pytest.mark.exhaustive)
        if isinstance(case, tuple)
        else pytest.param(case, marks=pytest.mark.exhaustive)
        for case in cases
    ]
