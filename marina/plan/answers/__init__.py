"""A plan for people and programs: its sentence, tables, picture and files.

Enters: the trials of candidates. Leaves: words, JSON, a picture, and changed specs. Not known here: how a candidate is
simulated.
"""
