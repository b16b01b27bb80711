"""The same no-op job on our bus, on the raw commands of the same server, and on other queues.

Each contestant is a process of its own: `python -m tests.bench.contest.<name> URL JOBS KEYS`. Those of other
queues run in environments of their own (`arena.py`) and import nothing of ours but `race`.
"""
