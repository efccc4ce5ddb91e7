"""Hosts run workers and call them: TorchServe and Ray Serve. Only these files contain code for a particular host."""
