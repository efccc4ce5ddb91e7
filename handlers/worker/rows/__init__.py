"""Rows: tokenizes instances, truncates or windows them, plans calls by their times, runs and times graphs.

Enters: instances. Leaves: calls of graphs, and the outputs of each row. Not known here: requests and tasks.
"""
