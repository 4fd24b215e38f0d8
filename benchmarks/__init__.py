"""Benchmarks: run by hand and by `make bench`."""
