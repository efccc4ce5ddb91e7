"""What a worker counts (metrics.py), and what it tells of the model that it serves (description.py)."""
