"""How many requests a container takes at once, by the size of their bodies, and the memory that Java has for them.

TorchServe keeps several copies of a body while its request waits. Nearly all bodies are small: nginx lets many small
ones and few large ones through, so that models which take large bodies need no more memory than others.

With 512 bodies of 99 kB, 32 of 990 kB and 4 of 6.4 MB at once, again and again, TorchServe 0.12 on Java 17 ran with
320 MB of heap and 208 MB of direct memory, and took 645 MB. With 16 bodies of 6.4 MB it ran out of 416 and 336 MB.
"""

from __future__ import annotations

# requests at once: of any size, with bodies from 100 kB, and with bodies from 1 MB or of unknown size
REQUESTS, MEDIUM_BODIES, LARGE_BODIES = 512, 32, 4
# gRPC does not say the size of a body before it comes
GRPC_BODY_BYTES, GRPC_BODIES_BYTES = 1_000_000, 32_000_000

LARGE_BODIES_BYTES = 25_600_000  # of all large bodies together; a larger body comes alone

MIB = 1 << 20
HEAP_MIB, DIRECT_MIB = 384, 256
OTHER_BYTES = 130_000_000  # classes, compiled code and threads
JAVA_MAX_BYTES = (HEAP_MIB + DIRECT_MIB) * MIB + OTHER_BYTES


def large_bodies(body_bytes: int) -> int:
    """How many large bodies are taken at once, if the largest has `body_bytes` bytes."""
    return max(1, min(LARGE_BODIES, LARGE_BODIES_BYTES // body_bytes))


def with_java_memory(lines: list[str]) -> list[str]:
    """The lines of config.properties with the options of Java's memory in `vmargs` that a container has."""
    is_vmargs = [line.partition("=")[0].strip() == "vmargs" for line in lines]
    other = [option for line, is_it in zip(lines, is_vmargs, strict=True) if is_it for option in _others(line)]
    memory = [f"-Xmx{HEAP_MIB}m", f"-XX:MaxDirectMemorySize={DIRECT_MIB}m"]
    kept = [line for line, is_it in zip(lines, is_vmargs, strict=True) if not is_it]
    return [*kept, f"vmargs={' '.join(memory + other)}"]


def _others(line: str) -> list[str]:
    options = line.partition("=")[2].split()
    return [option for option in options if not option.startswith(("-Xmx", "-XX:MaxDirectMemorySize="))]
