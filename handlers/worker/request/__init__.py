"""Requests: decodes bodies, reads and checks instances and parameters; one file per protocol in `protocols/`.

Enters: a body and its headers. Leaves: checked instances and parameters, and later the body of their answers. Not
known here: models and engines; of a task only its fields and parameters.
"""
