"""The spec of a job, from the options of the command or a YAML file."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from marina.fields import AnyFields, Section


class Input(Section):
    """Where rows come from."""

    url: str
    """A file, a folder, or a pattern with `*` in it, as a path or URL; or the URL of a database."""

    table: str | None = None
    """The table, or the collection, of a database."""

    query: str | None = None
    """For PostgreSQL a SELECT in place of a table, for MongoDB a filter of the collection as JSON."""

    key: str | None = None
    """For PostgreSQL the column that tells rows apart. Default: the table's primary key, or `id`."""


class Output(Section):
    """Where answers go."""

    url: str
    """A file, or a folder for a file per shard, as a path or URL; or the URL of a database."""

    table: str | None = None
    """The table, or the collection, of a database; it is made if there is none."""

    format: Literal["parquet", "csv", "tsv", "jsonl"] = "parquet"
    """The format of the files in a folder. That of a single file is told by its suffix."""


class JobSpec(Section):
    """A job: the rows of the input are answered into the output."""

    model: str
    """The model, by the name of its archive; BUNDLE:MODEL for one of a bundle."""

    input: Input
    """Where rows come from."""

    output: Output
    """Where answers go."""

    columns: dict[str, str] = Field({})
    """Columns by field of an instance (`text`, `text_pair`, `question`, `context`), where the input names them
    otherwise."""

    parameters: AnyFields = Field({})
    """Request parameters for every row."""

    keep: tuple[str, ...] | None = None
    """Columns of the input to carry along; all if not given."""

    prefix: str = ""
    """For the names of the columns of answers."""

    limit: int | None = Field(None, ge=1)
    """Only this many rows."""

    core_groups: str | None = None
    """Core groups instead of the archive's own, in the format of NEURONCORE_GROUP_SIZES: a process for each."""
