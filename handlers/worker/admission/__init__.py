"""Admission: which requests are computed now, by what they cost and how long they have waited.

Enters: the requests of a batch. Leaves: those to compute; all others are refused with 503. Not known here: tasks, and
what is in a request but its costs.
"""
