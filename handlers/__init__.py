"""What runs inside TorchServe: one small handler a task, and the worker that all of them share."""
