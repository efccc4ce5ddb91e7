"""Sends a request again if the server could not answer it; predictions change nothing, so that does no harm."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import Any

from marina.errors import ClientError, UnknownModelError

TRIES = 4  # no try may take longer than this part of the time limit: a server that dies may forget a request
# pauses between tries; each is doubled, and a random part of it waited
FIRST_PAUSE_S = 0.1
MAX_PAUSE_S = 5.0
MIN_TRY_S = 0.1
UNKNOWN_S = 2.0  # how long a server that has just started may not know its models


def with_retries(send: Callable[[float], Any], limit_s: float, retry: bool) -> Any:
    """Call `send` until it succeeds, fails for good, or the time is over; returns its result.

    Args:
        send: sends the request; its argument is the timeout in seconds.
        limit_s: seconds for all tries together.
        retry: False for a single try that may take all the time.

    Raises:
        ClientError: the last failure.
    """
    start = time.monotonic()
    unknown_since = None  # the time of the first answer that the model is unknown
    pause = FIRST_PAUSE_S
    while True:
        seconds_left = start + limit_s - time.monotonic()
        try:
            return send(max(min(seconds_left, limit_s / TRIES), MIN_TRY_S) if retry else limit_s)
        except ClientError as error:
            if isinstance(error, UnknownModelError):
                unknown_since = unknown_since or time.monotonic()
                transient = time.monotonic() - unknown_since < UNKNOWN_S
            else:
                unknown_since, transient = None, error.transient
            wait = max(error.retry_after_s, pause * random.uniform(0.5, 1.5))
            if not (retry and transient and time.monotonic() + wait + MIN_TRY_S < start + limit_s):
                raise
        time.sleep(wait)
        pause = min(2 * pause, MAX_PAUSE_S)
