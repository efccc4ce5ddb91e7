"""`python -m marina.container.check`: exits with 0 if the container that it runs in is ready, for health checks."""

from __future__ import annotations

import os
import sys
from urllib.request import ProxyHandler, build_opener

from marina.container.settings import port_of


def main() -> int:
    """Ask the container's own port, as SageMaker does."""
    try:
        opener = build_opener(ProxyHandler({}))  # none of the environment's proxies
        with opener.open(f"http://127.0.0.1:{port_of(os.environ)}/ping", timeout=5) as answer:
            return 0 if answer.status == 200 else 1
    except OSError as error:
        print(error, file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
