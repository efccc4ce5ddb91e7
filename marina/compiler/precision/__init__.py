"""The precision of a model: choice.py chooses it by trials, trials.py runs them.

Enters: a job. Leaves: a precision, with what was tried. Not known here: any engine by its name.
"""
