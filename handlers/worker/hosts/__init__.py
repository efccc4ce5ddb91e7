"""Hosts run workers and call them: TorchServe, `direct` and Ray Serve. Only these files know a particular host."""
