"""A server of the protocol of MongoDB, in memory: python mongodb_server.py PORT, in the environment build/mongodb."""

from __future__ import annotations

import asyncio
import sys

from mongoeco.engines.memory import MemoryEngine
from mongoeco.wire import AsyncMongoEcoProxyServer


async def serve(port: int) -> None:
    async with AsyncMongoEcoProxyServer(engine=MemoryEngine(), port=port):
        await asyncio.Event().wait()


asyncio.run(serve(int(sys.argv[1])))
