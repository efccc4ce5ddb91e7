"""Tokens: turns instances into rows of token ids, truncates them or makes windows, and adds prompts.

Enters: instances. Leaves: rows, or an error for an instance. Not known here: graphs and their shapes, but the length of
the longest row.
"""
