"""Hosts run workers and call them. Only these files contain code for a particular host; today that is TorchServe."""
