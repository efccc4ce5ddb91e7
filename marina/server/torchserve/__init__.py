"""TorchServe itself: its process, configuration, tokens and management API."""
