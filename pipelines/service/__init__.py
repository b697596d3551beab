"""Forecasts over HTTP: workloads in, seconds of steps and epochs out (PredictDDL, section III)."""
