"""Judges predictions: random workloads are predicted, then measured. `make verify-plan`.

cases.py    the workloads
measure.py  predicts and measures a workload
sweep.py    whether the choice of a plan is the best configuration of a sweep
report.py   the table, the picture and the medians of the errors
__main__.py all of it, in order
"""
