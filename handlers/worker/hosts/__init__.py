"""Hosts: what carries workers and speaks to clients. Only these files know one; today it is TorchServe."""
