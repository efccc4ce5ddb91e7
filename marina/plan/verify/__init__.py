"""Judges predictions: random workloads are predicted, then measured. `make verify-plan`.

cases.py    the workloads
measure.py  predicts and measures one
report.py   the table, the picture and what was missed
__main__.py all of it, in order
"""
