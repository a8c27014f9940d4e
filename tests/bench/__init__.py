"""Benchmarks. A part measures one thing, prints its table, writes its report and names missed bars.

Run them with `make bench`, or `python -m tests.bench [part ...]`.
"""
