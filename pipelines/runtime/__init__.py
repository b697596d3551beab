"""Srift's runtime: training that goes on when nodes are taken away (section 4.5)."""

from typing import Literal

IfInfeasible = Literal["ask", "abort", "deadline", "budget"]
"""What happens where no nodes meet the limits: ask the user, abort, or relax one limit."""
