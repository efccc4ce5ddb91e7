"""The four functions of SageMaker's PyTorch container, for a model that Marina compiled.

The container calls them for one request after the other, so requests are not batched. Its batch size must stay 1.
"""

from __future__ import annotations

from http import HTTPStatus
from pathlib import Path
from typing import Any

import yaml

from handlers.worker.answering.model import Model
from handlers.worker.answering.reply import Reply
from handlers.worker.settings import read_settings
from handlers.worker.tasks import TASKS


def model_fn(model_dir: str) -> Model:
    """Load the graphs, and check them on their golden rows."""
    folder = Path(model_dir)
    config = yaml.safe_load((folder / "model-config.yaml").read_text())
    return Model(folder / "artifact", read_settings(config), TASKS)


def input_fn(request_body: bytes | str, content_type: str) -> tuple[bytes, str]:
    """Keep the body as bytes, with its type: the model reads every format that Marina's server reads."""
    body = request_body.encode() if isinstance(request_body, str) else bytes(request_body)
    return body, content_type


def predict_fn(data: tuple[bytes, str], model: Model) -> Reply:
    """Tokenize, plan, run the graphs, and write the answer."""
    body, content_type = data
    return model.reply([(body, {"content-type": content_type})])[0]


def output_fn(reply: Reply, accept: str, context: Any) -> tuple[bytes, str]:
    """Return the answer; one that is an error keeps its status and its reason."""
    if reply.status != HTTPStatus.OK:
        context.set_response_status(code=reply.status, phrase=HTTPStatus(reply.status).phrase)
    for name, value in reply.headers.items():
        context.set_response_header(0, name, value)
    return reply.body, reply.media_type
