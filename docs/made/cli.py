"""reference/cli.md: every command with its arguments, its options and an example."""

from __future__ import annotations

import typing
from collections.abc import Iterator
from typing import Any

import typer

from docs.made.tables import table
from marina.cli import app

HEAD = """# Commands

<!-- Made from marina/cli/ by make docs; do not edit. -->

Run a command inside a project, which is a folder with `models/` and `config.properties`, or in any folder below it. `marina --version`
prints the version. `marina --install-completion` sets up completion for bash, zsh or fish; open a new shell afterwards.

With `--json`, a command prints JSON on standard output. If it fails, it prints `{"error": ..., "cause": ..., "fix": ...}` there and exits
with 1; `check`, `compile` and `archive` list each model that failed with its `"error"`. A mistyped command line exits with 2.
"""


def cli_page() -> str:
    """docs/reference/cli.md."""
    parts = [HEAD]
    for name, command in _commands(typer.main.get_command(app), "marina"):
        help_text, _, more = (command.help or "").partition("\n\n")
        parts += [f"## {name}", "", " ".join(help_text.split()), ""]
        usage = " ".join([name, *(_usage(one) for one in command.params if one.param_type_name == "argument")])
        options = [one for one in command.params if one.param_type_name == "option" and one.name != "help"]
        parts += ["```text", usage + (" [OPTIONS]" if options else ""), "```", ""]
        parts += [f"{' '.join(paragraph.split())}\n" for paragraph in more.split("\n\n") if paragraph]
        rows = [_row(one) for one in command.params if one.name != "help"]
        if rows:
            parts += [table(("argument or option", "default", "meaning"), rows), ""]
        if command.epilog:
            parts += [command.epilog, ""]
    return "\n".join(parts).rstrip("\n") + "\n"


def _commands(command: Any, name: str) -> Iterator[tuple[str, Any]]:
    """Every command that is no group of others, by its whole name."""
    for short, own in getattr(command, "commands", {}).items():
        if hasattr(own, "commands"):
            yield from _commands(own, f"{name} {short}")
        else:
            yield f"{name} {short}", own


def _usage(argument: Any) -> str:
    shown = str(argument.metavar or argument.name.upper()) + ("..." if argument.nargs == -1 else "")
    return shown if argument.required else f"[{shown}]"


def _row(parameter: Any) -> tuple[str, str, str]:
    if parameter.param_type_name == "argument":
        name = f"`{parameter.metavar or parameter.name.upper()}`"
    else:
        name = f"`{', '.join(parameter.opts)}{_takes(parameter)}`"
    default = parameter.default
    shown = "" if default in (None, False, ()) or callable(default) else f"`{default}`"
    return name, "required" if parameter.required else shown, " ".join((parameter.help or "").split())


def _takes(option: Any) -> str:
    """What stands behind an option."""
    if option.is_flag:
        return ""
    kind = option.type_descriptor.annotation
    choices = (
        " or ".join(str(one) for one in typing.get_args(kind)) if typing.get_origin(kind) is typing.Literal else ""
    )
    return f" {option.metavar or choices or ('N' if kind in (int, float) else 'TEXT')}"
