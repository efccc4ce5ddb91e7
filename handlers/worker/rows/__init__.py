"""Rows: plans calls by their times, packs rows into lines, and runs and times graphs.

Enters: rows. Leaves: calls of graphs, and the outputs of each row. Not known here: requests and tasks.
"""
