"""A running server, as its management API shows it: its models, tokens, and whether workers are READY."""
