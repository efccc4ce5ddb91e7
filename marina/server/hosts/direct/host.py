"""The host `direct`, as the rest of Marina knows it."""

from __future__ import annotations

from marina.server.hosts.direct.bodies import ALL_BODIES_BYTES
from marina.server.hosts.direct.process import direct_processes, start_direct
from marina.server.hosts.host import STARTER_BYTES, Host
from marina.server.run.ports import HTTP

FRONT_BYTES = 90_000_000
# a body is in the message to its worker too; and 20,000 connections
FRONT_MAX_BYTES = FRONT_BYTES + 2 * ALL_BODIES_BYTES + 150_000_000

DIRECT_HOST = Host(
    start=start_direct,
    processes=direct_processes,
    ports=(*HTTP, "grpc_inference"),
    has_access=True,
    delays_ms=(0,),
    java=False,
    packages=("httptools", "uvicorn", "uvloop"),
    grpc=("grpcio", "protobuf"),
    idle_bytes=FRONT_BYTES + STARTER_BYTES,
    max_bytes=FRONT_MAX_BYTES + STARTER_BYTES,
)
