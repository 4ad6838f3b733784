"""Benchmarks of perturank: `make bench` and `make bench-service`; see README.md."""
