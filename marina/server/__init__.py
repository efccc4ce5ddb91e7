"""Starting, stopping and managing a server, whatever its host is."""

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
