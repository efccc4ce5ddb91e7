"""Judges predictions: random workloads are predicted, then measured. `make verify-plan`.

cases.py    the workloads
measure.py  predicts and measures one
sweep.py    whether the choice of a plan is the best of those that a sweep measures
report.py   the table, the picture and what was missed
__main__.py all of it, in order
"""
