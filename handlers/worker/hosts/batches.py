"""Batches for hosts that hand over requests one by one: a batch is the requests that wait when the model becomes idle.

Nothing waits for a batch to fill. An idle model computes a single request at once; under load the next batch fills
while it computes.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from handlers.worker.answering.model import Model
from handlers.worker.answering.reply import Reply

Headers = Mapping[str, str]


class Batches:
    """One model, and the requests that wait for it.

    The model is loaded and called in one thread of its own: its graphs are fastest in the thread that loaded them.

    Args:
        load: loads the model.
        size: the largest number of requests in a batch.
    """

    def __init__(self, load: Callable[[], Model], size: int) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="model")
        self.model = self._thread.submit(load).result()
        self._size = size
        self._waiting: deque[tuple[Any, Headers, asyncio.Future[Reply]]] = deque()
        self._running: asyncio.Task[None] | None = None

    async def reply(self, body: Any, headers: Headers) -> Reply:
        """The reply to a request, when its batch has been computed."""
        future: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        self._waiting.append((body, headers, future))
        if self._running is None:
            self._running = asyncio.create_task(self._run())
        return await future

    async def _run(self) -> None:
        """Compute batches until nothing waits."""
        loop = asyncio.get_running_loop()
        while self._waiting:
            batch = [self._waiting.popleft() for _ in range(min(self._size, len(self._waiting)))]
            bodies = [(body, headers) for body, headers, future in batch]
            try:
                replies = await loop.run_in_executor(self._thread, self.model.reply, bodies)
            except Exception as error:
                for _, _, future in batch:
                    if not future.done():
                        future.set_exception(error)
                continue
            for (_, _, future), reply in zip(batch, replies, strict=True):
                if not future.done():  # done if the client has gone
                    future.set_result(reply)
        self._running = None
