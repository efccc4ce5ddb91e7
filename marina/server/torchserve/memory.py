"""How many requests a container takes at once, by the size of their bodies, and the memory that Java has for them.

TorchServe keeps several copies of a body while its request waits. Nearly all bodies are small: nginx lets many small
ones and few large ones through, so that models which take large bodies need no more memory than others.

With 512 bodies of 99 kB, 32 of 990 kB and 4 of 6.4 MB at once, again and again, TorchServe 0.12 on Java 17 ran with
320 MB of heap and 208 MB of direct memory, and took 645 MB. With 16 bodies of 6.4 MB it ran out of 416 and 336 MB.
"""

from __future__ import annotations

import re

# requests at once: of any size, with bodies from 100 kB, and with bodies from 1 MB or of unknown size
REQUESTS, MEDIUM_BODIES, LARGE_BODIES = 512, 32, 4
# gRPC does not say the size of a body before it comes
GRPC_BODY_BYTES, GRPC_BODIES_BYTES = 1_000_000, 32_000_000

HEAP_MB, DIRECT_MB = 384, 256
OTHER_MB = 130  # classes, compiled code and threads
JAVA_MAX_BYTES = (HEAP_MB + DIRECT_MB + OTHER_MB) * 1_000_000


def with_java_memory(line: str) -> str:
    """A line of config.properties; the options of Java's memory in `vmargs` become those of a container."""
    if line.partition("=")[0].strip() != "vmargs":
        return line
    line = re.sub(r"-Xmx\S+", f"-Xmx{HEAP_MB}m", line)
    return re.sub(r"-XX:MaxDirectMemorySize=\S+", f"-XX:MaxDirectMemorySize={DIRECT_MB}m", line)
