"""Command lines of the compilers, as strings or lists, in all the forms that AWS's documents and examples have."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence


def split(arguments: str | Sequence[str], joined: Mapping[str, str] = {}) -> list[tuple[str, list[str]]]:
    """Options and their values, in order.

    Forms: "--flag value", "--flag=value" (AWS staff in aws-neuron-sdk #580), and one string instead of a list.

    Args:
        arguments: the command line.
        joined: short options whose value may follow without a space, by their long names: "-O1" is "--optlevel 1".
    """
    parts = shlex.split(arguments) if isinstance(arguments, str) else list(arguments)
    found: list[tuple[str, list[str]]] = []
    for part in parts:
        name, equals, value = part.partition("=")
        short = next((short for short in joined if part.startswith(short) and not part.startswith("--")), None)
        if short:
            rest = part.removeprefix(short).removeprefix("=")
            found.append((joined[short], [rest] if rest else []))
        elif part.startswith("-"):
            found.append((name, [value] if equals else []))
        elif found:
            found[-1][1].append(part)
        else:
            found.append((part, []))
    return found
