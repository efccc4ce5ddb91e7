"""What candidates keep: bounds, simulations, the search for the cheapest, and how far a choice reaches.

Enters: candidates and a workload. Leaves: trials of candidates. Not known here: calibrations, and files.
"""
