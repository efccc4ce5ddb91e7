"""Requests: bodies decoded, instances and parameters read and checked; one file a protocol in `protocols/`."""
