"""Ernest: steps of a job as a black box, from a few runs that its own design chooses."""
