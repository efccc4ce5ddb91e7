"""TorchServe itself: its process, configuration, Java and memory."""
