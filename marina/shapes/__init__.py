"""Chooses the shapes to compile from the lengths of texts and the times of graphs.

lengths.py   how long texts are: from a file of texts, of lengths, or a histogram
costs.py     the time of one call of any shape, fitted to measured ones
choice.py    the best shapes for lengths and times, by dynamic programming
ladder.py    shapes for lengths that nobody knows, with a bound on waste
report.py    what shapes do to texts: padding waste and time
picture.py   the same, to look at
"""
