"""Hosts run workers and call them: TorchServe, `direct` and Ray Serve. Only these files know a particular host.

Enters: bodies as a host hands them over. Leaves: replies as it takes them. Not known here: engines, and all tasks but
the worker's own.
"""
