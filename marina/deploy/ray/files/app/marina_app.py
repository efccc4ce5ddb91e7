"""The applications of Ray Serve; config.yaml names them."""

from handlers.worker.hosts.ray_serve import front, model

__all__ = ["front", "model"]
