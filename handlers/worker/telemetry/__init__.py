"""Telemetry: a worker's metrics (metrics.py), and the description of its model (description.py)."""
