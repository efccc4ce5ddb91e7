"""Whether the weights of a folder are those of a head for a task: heads of different tasks can have equal names."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from marina.compiler.source import weight_shapes
from marina.compiler.source.loading import source_errors
from marina.errors import SourceError
from marina.spec import Spec

Shapes = Mapping[str, tuple[int, ...]]


def check_architecture(spec: Spec, folder: Path, heads: Mapping[str, str]) -> None:
    """Refuse a model with the head of another task.

    `architectures` in config.json decides. Where that names no head, the names and shapes of the weights do:
    of the tasks whose model they fill, those that leave the fewest of them over.

    Args:
        spec: the model's.
        folder: that holds it.
        heads: for each task how transformers ends the names of classes that have its head.

    Raises:
        SourceError: naming what the folder holds.
    """
    import transformers

    with source_errors(spec, "transformers"):
        config = transformers.AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    named = config.architectures or []
    tasks = [task for task, head in heads.items() if any(head in name for name in named)]
    if tasks and spec.task not in tasks:
        raise SourceError(
            f"{spec.name}: source {spec.source} is a {', '.join(named)}, and the task {spec.task} needs a "
            f"...{heads[spec.task]}; correct the task or the source in the spec"
        )
    if tasks:
        return
    stored = weight_shapes(folder)
    classes = {task: getattr(transformers, f"AutoModel{head}") for task, head in heads.items()}
    left_over = {task: _left_over(own, config, stored) for task, own in classes.items()}
    fitting = {task: count for task, count in left_over.items() if count is not None}
    best = [task for task, count in fitting.items() if count == min(fitting.values())]
    if best and best != [spec.task]:
        fit = " and ".join(f"...{heads[task]}" for task in best)
        raise SourceError(
            f"{spec.name}: source {spec.source} names no head in the architectures of config.json, and its weights are "
            f'those of a {fit}; write "architectures": ["...{heads[spec.task]}"] there if it was trained for the task '
            f"{spec.task}"
        )


def _left_over(auto_class: Any, config: Any, stored: Shapes) -> int | None:
    """How many of the stored weights the model of a class does not take; None where it has others of its own."""
    try:
        model = auto_class.from_config(config, trust_remote_code=False)
    except ValueError:  # transformers has no such class for this architecture
        return None
    own = {name: tuple(weight.shape) for name, weight in model.named_parameters()}
    if any(stored.get(name) != shape for name, shape in own.items()):
        return None
    return len(stored.keys() - model.state_dict().keys())
