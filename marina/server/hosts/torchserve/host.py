"""TorchServe, as the rest of Marina knows it."""

from __future__ import annotations

from marina.archive.describe import JAVA_BYTES
from marina.server.hosts.host import STARTER_BYTES, Host
from marina.server.hosts.torchserve.memory import JAVA_MAX_BYTES
from marina.server.hosts.torchserve.process import start_torchserve, torchserve_processes
from marina.server.run.ports import GRPC, HTTP

NGINX_BYTES = 100_000_000

TORCHSERVE_HOST = Host(
    start=start_torchserve,
    processes=torchserve_processes,
    ports=(*HTTP, *GRPC),
    has_access=False,
    delays_ms=(1, 2, 5, 10),
    java=True,
    packages=(),
    grpc=(),
    idle_bytes=JAVA_BYTES + STARTER_BYTES + NGINX_BYTES,
    max_bytes=JAVA_MAX_BYTES + 2 * (STARTER_BYTES + NGINX_BYTES),
)
