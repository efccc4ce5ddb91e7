"""The files that tests reach: by imports, and by the modules, commands and files that they name."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from pathlib import PurePosixPath

from tests.suites.code import Code, read_code
from tests.suites.tree import Tree

COMMANDS = "marina.cli"  # imports every command, and runs one of them
# what these modules read is named by no import: archives carry all of handlers/
CARRIED = {"marina.archive.pack": "handlers"}
# read as scripts, whose words are commands
SCRIPTS = (".md", ".sh")
COMMAND_LINE = re.compile(r"\bmarina ([a-z-]+)")
# the product's own strings and texts are for users: they name no files of this repository, and run nothing
PRODUCT = ("handlers", "marina")
# what Python and pytest read of every folder above a file
BESIDE = ("__init__.py", "conftest.py")


class Reach:
    """Follows references from file to file.

    Args:
        tree: the repository.
    """

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._commands = commands_of(tree)
        self._known: dict[str, frozenset[str]] = {}

    def of(self, files: Iterable[str]) -> frozenset[str]:
        """All files that these depend on, and themselves."""
        found: set[str] = set()
        waiting = list(files)
        while waiting:
            file = waiting.pop()
            if file not in found:
                found.add(file)
                waiting += self._references(file)
        return frozenset(found)

    def _references(self, file: str) -> frozenset[str]:
        if file not in self._known:
            self._known[file] = frozenset(self._read(file))
        return self._known[file]

    def _read(self, file: str) -> Iterator[str]:
        if file.endswith(".py"):
            yield from self._of_module(PurePosixPath(file), read_code(self._text(file)))
        elif file.endswith(SCRIPTS) and PurePosixPath(file).parts[0] not in PRODUCT:
            yield from self._of_script(self._text(file))

    def _text(self, file: str) -> str:
        return (self._tree.root / file).read_text(encoding="utf-8")

    def _of_module(self, path: PurePosixPath, code: Code) -> Iterator[str]:
        module = ".".join(path.with_suffix("").parts).removesuffix(".__init__")
        for folder in path.parents:
            yield from (str(folder / name) for name in BESIDE if str(folder / name) in self._tree.files)
        if str(path.parent) != "tests":  # whose data belong to those tests that name them
            yield from self._tree.data_of(str(path.parent))
        commands = f"{COMMANDS}."
        yield from self._modules(one for one in code.imports if module != COMMANDS or not one.startswith(commands))
        if code.loads_by_name:
            yield from (one for one in self._tree.folders[str(path.parent)] if one.endswith(".py"))
        if module in CARRIED:
            yield from self._tree.below(CARRIED[module])
        yield from self._modules(text for text in code.constants if "." in text)
        if path.parts[0] not in PRODUCT:
            yield from self._of_strings(code)
        elif "marina" in code.arguments and module != COMMANDS:  # it runs commands
            yield from self._run(code.arguments)

    def _of_strings(self, code: Code) -> Iterator[str]:
        yield from self._run(code.arguments)
        for text in code.constants:
            yield from self._run(COMMAND_LINE.findall(text))
        yield from code.constants & self._tree.files
        for text in code.paths:
            yield from [text] if text in self._tree.files else self._tree.below(text)

    def _of_script(self, text: str) -> Iterator[str]:
        yield from self._run(COMMAND_LINE.findall(text))
        yield from self._modules(re.findall(r"-m ((?!tests)[a-z_.]+)", text))

    def _modules(self, names: Iterable[str]) -> Iterator[str]:
        """The files of modules, of the packages that they are in, and of those to run."""
        for name in names:
            parts = name.split(".")
            for length in range(1, len(parts) + 1):
                yield from self._module(".".join(parts[:length]))
            yield from self._module(f"{name}.__main__")

    def _module(self, name: str) -> Iterator[str]:
        if name in self._tree.modules:
            yield self._tree.modules[name]

    def _run(self, words: Iterable[str]) -> Iterator[str]:
        for word in {*words} & {*self._commands}:
            yield from self._modules([COMMANDS, "marina.__main__", self._commands[word]])


def commands_of(tree: Tree) -> dict[str, str]:
    """The module of each command of `marina`, by the command's name."""
    code = ast.parse((tree.root / tree.modules[COMMANDS]).read_text(encoding="utf-8"))
    modules = {
        alias.asname or alias.name: str(node.module)
        for node in code.body
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith(f"{COMMANDS}.")
        for alias in node.names
    }
    found = {}
    for node in ast.walk(code):
        if isinstance(node, ast.Dict):  # PANELS
            for key, value in zip(node.keys, node.values, strict=True):
                if isinstance(key, ast.Name) and isinstance(value, ast.Tuple) and key.id in modules:
                    found[ast.literal_eval(value.elts[0])] = modules[key.id]
    return found
