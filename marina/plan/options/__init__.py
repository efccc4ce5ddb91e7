"""What may be deployed: places to run, ways to compile each model, and ways to serve them there.

Enters: calibrations, and what specs and instance types say. Leaves: candidates with the costs of their models. Not
known here: workloads but their texts, and promises.
"""
