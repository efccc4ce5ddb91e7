"""What all tasks share inside the worker.

A request flows one way: parse -> tokenize -> plan -> calls -> gather -> answer.
Nothing here imports `marina`: an archive carries this package and runs without the repository.
"""
