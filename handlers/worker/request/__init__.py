"""Requests: decodes bodies, reads and checks instances and parameters; one file per protocol in `protocols/`."""
