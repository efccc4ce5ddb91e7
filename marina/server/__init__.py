"""Starting, stopping and managing TorchServe."""

from marina.server.lifecycle import serve, stop
from marina.server.models import find_problems, register, require_running, rollback, status, unregister
from marina.server.scaling import scale

__all__ = [
    "find_problems",
    "register",
    "require_running",
    "rollback",
    "scale",
    "serve",
    "status",
    "stop",
    "unregister",
]
