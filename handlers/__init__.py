"""The code that runs inside TorchServe: one entry file per task, and the worker that all tasks share."""
