"""What runs inside TorchServe: the entry file of each task's archives, and the worker that all of them share."""
