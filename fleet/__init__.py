"""Node types that are profiled again and again: what they are due for, and whether they drift."""
