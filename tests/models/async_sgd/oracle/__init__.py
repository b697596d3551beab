"""The simulator in plain Python: what the compiled one has to agree with."""
