"""Renting machines: a bill that cannot run away, and nothing forgotten whatever is killed when."""
