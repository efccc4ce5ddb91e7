"""Rows: tokenizes instances, truncates or windows them, plans calls by their times, runs and times graphs."""
