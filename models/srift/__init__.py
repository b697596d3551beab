"""Srift (Luo et al., MLSys 2022): time and cost of synchronous data parallelism in the cloud."""
