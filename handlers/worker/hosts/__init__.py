"""Hosts: what carries workers and calls them. Only these files know how one does; today it is TorchServe."""
