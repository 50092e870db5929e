"""Measurements, run by hand: `python -m tests.benchmarks`. No test asserts a time."""
