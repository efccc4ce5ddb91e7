"""Mutants: small changes of the code, each of which some test should notice (outside CI: make mutants, hours).

draw.py       400 of all changes that cosmic-ray knows, drawn with a seed
reach.py      the tests that reach each line
judge.py      whether a test fails with a mutant in place
__main__.py   draws, judges side by side, and prints those that no test noticed
"""
