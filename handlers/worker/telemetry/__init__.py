"""Telemetry: a worker's metrics (metrics.py), and the description of its model (description.py).

Enters: what a worker counts and times. Leaves: metrics and spans. Not known here: hosts, and texts of users.
"""
