"""Packs the usual handler, and any other handler, with torch-model-archiver."""

from __future__ import annotations

import json
import tempfile
import warnings
from pathlib import Path

import yaml

from marina.errors import SourceError

HANDLER, NOTHING = (Path(__file__).parent / name for name in ("handler.py", "nothing.py"))
TIMEOUT_S = 120


def pack_usual(
    source: Path, name: str, model_store: Path, work: Path, tokens: int, batch_size: int, delay_ms: int = 5
) -> Path:
    """Trace a text classifier in float32 at one shape and pack it with the usual handler and one worker.

    Args:
        source: folder of the model, in the format of save_pretrained.
        name: name of the archive.
        model_store: folder of the archive.
        work: folder for the files to pack.
        tokens, batch_size: the shape.
        delay_ms: milliseconds to wait for a fuller batch.

    Raises:
        SourceError: the model is not a text classifier with one head.
    """
    import torch
    from transformers import AutoModelForSequenceClassification, AutoTokenizer
    from transformers.utils import logging

    logging.set_verbosity_error()
    logging.disable_progress_bar()
    work.mkdir(parents=True, exist_ok=True)
    fields = json.loads((source / "config.json").read_text())
    if not any("SequenceClassification" in architecture for architecture in fields.get("architectures") or ()):
        raise SourceError(f"{source}: the usual handler serves text classifiers with one head, and this is none")
    model = AutoModelForSequenceClassification.from_pretrained(
        source, return_dict=False, trust_remote_code=False
    ).eval()
    AutoTokenizer.from_pretrained(source, trust_remote_code=False).save_pretrained(work)
    labels = [model.config.id2label[number] for number in range(model.config.num_labels)]
    setup = {"labels": labels, "max_length": tokens, "batch_size": batch_size}
    (work / "setup_config.json").write_text(json.dumps(setup))
    inputs = tuple(torch.ones(batch_size, tokens, dtype=torch.long) for _ in range(3))
    traced_file = work.with_suffix(".pt")
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.jit.save(torch.jit.trace(model, inputs), str(traced_file))
    config = {
        **{"minWorkers": 1, "maxWorkers": 1, "batchSize": batch_size, "maxBatchDelay": delay_ms},
        **{"responseTimeout": TIMEOUT_S, "startupTimeout": TIMEOUT_S},
    }
    return pack_handler(name, HANDLER, config, model_store, traced_file, sorted(work.iterdir()))


def pack_handler(
    name: str,
    handler: Path,
    config: dict[str, int],
    model_store: Path,
    model: Path | None = None,
    extra: list[Path] | None = None,
) -> Path:
    """Pack a handler with torch-model-archiver; `config` is its model-config.yaml."""
    from model_archiver import ModelArchiver, ModelArchiverConfig

    (model_store / f"{name}.mar").unlink(missing_ok=True)
    # the archiver stages files in the temporary folder, and first deletes what has the model's name there
    previous_tempdir = tempfile.tempdir
    with tempfile.TemporaryDirectory() as staging:
        config_file = Path(staging) / "model-config.yaml"
        config_file.write_text(yaml.safe_dump(config))
        tempfile.tempdir = staging
        try:
            ModelArchiver.generate_model_archive(
                ModelArchiverConfig(
                    model_name=name,
                    handler=str(handler),
                    version="1.0",
                    serialized_file=str(model) if model else None,
                    extra_files=",".join(map(str, extra)) if extra else None,
                    config_file=str(config_file),
                    export_path=str(model_store),
                    force=True,
                )
            )
        finally:
            tempfile.tempdir = previous_tempdir
    return model_store / f"{name}.mar"
