"""How soon the drift judge finds what was made slower, and how often it is wrong.

`python -m benchmarks.drift collect` runs probes for real, quiet ones and some of nodes that it
makes slower; `replay` draws days from these and judges them as a fleet would.
"""
