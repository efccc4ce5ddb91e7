"""Checks that a folder's weights have the head for a task: heads of different tasks can have the same names."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from marina.compiler.hugging_face import weight_shapes
from marina.compiler.hugging_face.folder import HuggingFaceFolder
from marina.compiler.hugging_face.loading import read_configuration
from marina.errors import SourceError

Shapes = Mapping[str, tuple[int, ...]]


def tasks_of_architectures(architectures: Iterable[str], heads: Mapping[str, str]) -> list[str]:
    """The tasks whose heads the architectures in a config.json name."""
    return [task for task, head in heads.items() if any(head in name for name in architectures)]


def architectures_of(config: Mapping[str, Any]) -> list[str]:
    """The architectures that a config.json names."""
    return [str(name) for name in config.get("architectures") or []]


def names_head(head: str) -> Callable[[Path, Mapping[str, Any]], bool]:
    """Recognises models whose config.json names an architecture with a head."""
    return lambda _, config: bool(tasks_of_architectures(architectures_of(config), {"": head}))


def check_architecture(source: HuggingFaceFolder, heads: Mapping[str, str]) -> None:
    """Refuse a model with the head of another task.

    The `architectures` in config.json decide. If they name no head, the names and shapes of the weights decide:
    a task fits if the weights fill its model, and the tasks with the fewest unused weights match best.

    Args:
        source: the model's folder.
        heads: for each task, the suffix of transformers' class names for its head.

    Raises:
        SourceError: the model has another head; the message names what the folder contains.
    """
    import transformers

    config = read_configuration(source)
    architectures = config.architectures or []
    tasks = tasks_of_architectures(architectures, heads)
    if tasks and source.spec.task not in tasks:
        raise SourceError(
            f"{source.title} is a {', '.join(architectures)}, and the task {source.spec.task} needs a "
            f"...{heads[source.spec.task]}; correct the task or the source in the spec"
        )
    if tasks:
        return
    stored_shapes = weight_shapes(source.folder)
    classes = {task: getattr(transformers, f"AutoModel{head}") for task, head in heads.items()}
    unused_counts = {task: _count_unused(auto_class, config, stored_shapes) for task, auto_class in classes.items()}
    fitting_counts = {task: count for task, count in unused_counts.items() if count is not None}
    best_tasks = [task for task, count in fitting_counts.items() if count == min(fitting_counts.values())]
    best_heads = list(dict.fromkeys(heads[task] for task in best_tasks))
    if best_heads and best_heads != [heads[source.spec.task]]:
        fit = " and ".join(f"...{head}" for head in best_heads)
        raise SourceError(
            f"{source.title} names no head in the architectures of config.json, and its weights are "
            f'those of a {fit}; write "architectures": ["...{heads[source.spec.task]}"] there if it was trained for '
            f"the task {source.spec.task}"
        )


def _count_unused(auto_class: Any, config: Any, stored_shapes: Shapes) -> int | None:
    """The number of stored weights that a class's model does not use; None if it needs weights that are not stored."""
    try:
        model = auto_class.from_config(config, trust_remote_code=False)
    except ValueError:  # transformers has no such class for this architecture
        return None
    needed_shapes = {name: tuple(weight.shape) for name, weight in model.named_parameters()}
    if any(stored_shapes.get(name) != shape for name, shape in needed_shapes.items()):
        return None
    return len(stored_shapes.keys() - model.state_dict().keys())
