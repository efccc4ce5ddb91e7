"""Bundles: `models/NAME.yaml` with `bundle:`, several models that one archive holds and one worker serves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError, field_validator, model_validator

from handlers.worker.tasks import TASKS
from marina.engines import engine_of
from marina.errors import SpecError
from marina.spec.model import Spec, explain, read_spec
from marina.spec.sections import WorkerServing
from marina.spec.served import NAME, ArchiveSpec, check_name, read_yaml


class Bundle(ArchiveSpec):
    """Several models in one archive: each worker holds all of them on its core group."""

    bundle: tuple[str, ...] = Field(min_length=2)
    """The models, by the names of their specs. They have the same engine and the same mode, and are for the same
    instances. Each keeps its own limits, `long_text` and `parameters`; their own `core_groups`, `version` and other
    `serving` fields do not count."""

    chain: tuple[str, ...] = ()
    """Models of the bundle that answer a query with documents one after the other, for example [search, rerank]: the
    first ones choose documents, by their embeddings or as rerankers, and the last one ranks these."""

    serving: WorkerServing = WorkerServing()
    """How the bundle is served."""

    @field_validator("bundle")
    @classmethod
    def _distinct(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        if len(set(names)) < len(names):
            raise ValueError("a model is in it twice")
        if not all(NAME.fullmatch(name) for name in names):
            raise ValueError("name models as their specs do")
        return names

    @model_validator(mode="after")
    def _check_chain(self) -> Bundle:
        if self.chain and (len(set(self.chain)) < max(2, len(self.chain)) or set(self.chain) - set(self.bundle)):
            raise ValueError("chain: name two or more models of the bundle, each once")
        return self


def read_bundle(path: Path) -> Bundle:
    """Read one bundle; SpecError names the file, the field and the problem."""
    try:
        bundle = Bundle.model_validate(read_yaml(path))
    except ValidationError as error:
        raise SpecError(f"{path}: {explain(error, Bundle)}") from None
    check_name(bundle, path)
    return bundle


def read_model(path: Path, overrides: dict[str, Any]) -> Spec | Bundle:
    """Read a spec, with overrides as in `read_spec`, or a bundle."""
    return read_bundle(path) if "bundle" in read_yaml(path) else read_spec(path, overrides)


def read_members(bundle: Bundle, models: Path, overrides: dict[str, Any]) -> list[Spec]:
    """The specs of a bundle's models.

    Args:
        bundle: the bundle.
        models: the folder of specs.
        overrides: fields to replace in each, as in `read_spec`.

    Raises:
        SpecError: a spec is missing or invalid, or they cannot share a worker.
    """
    where = models / f"{bundle.name}.yaml"
    missing = [name for name in bundle.bundle if not (models / f"{name}.yaml").is_file()]
    if missing:
        raise SpecError(f"{where}: bundle: there is no spec {models / f'{missing[0]}.yaml'}")
    specs = [read_spec(models / f"{name}.yaml", overrides) for name in bundle.bundle]
    for field, values in (
        ("engine", [spec.engine for spec in specs]),
        ("mode", [spec.mode for spec in specs]),
        ("target", [engine_of(spec.engine).instances_for(spec.for_engine) for spec in specs]),
    ):
        if len(set(values)) > 1:
            values_by_model = ", ".join(f"{spec.name} {value}" for spec, value in zip(specs, values, strict=True))
            raise SpecError(f"{where}: models of a bundle have the same {field}: {values_by_model}")
    for spec in specs:
        if spec.name in bundle.chain and not (TASKS[spec.task].ranks or TASKS[spec.task].vectors):
            raise SpecError(f"{where}: chain: {spec.name} has the task {spec.task}, which gives documents no score")
        if bundle.chain[-1:] == (spec.name,) and not TASKS[spec.task].ranks:
            raise SpecError(f"{where}: chain: its last model, {spec.name}, must rank: {', '.join(_ranking_tasks())}")
        try:
            engine_of(spec.engine).check(spec.for_engine._replace(core_groups=bundle.core_groups))
        except ValueError as error:
            raise SpecError(f"{where}: core_groups do not suit {spec.name}: {error}") from None
    return specs


def _ranking_tasks() -> list[str]:
    return [name for name, task in TASKS.items() if task.ranks]
