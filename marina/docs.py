"""Pages of docs/ that are made from code: `python -m marina.docs` writes them, a test compares them."""
# ruff: noqa: E501  lines of tables

from __future__ import annotations

from handlers.worker.errors import KINDS
from marina.project import find_project

ERRORS_HEAD = """# Errors

Made from `handlers/worker/errors.py` by `make docs`; do not edit.

One bad request fails alone: the others in its batch are answered. A request with several instances fails as a whole if one of them
is bad, and the message names it. The body says what and why:

```json
{"code": 400, "type": "InvalidInstance", "error": "inputs[3] must be a text or {\\"text\\": ...}, not a number", "fix": "..."}
```

Over gRPC TorchServe carries no status for one request of a batch: there the answer is this body, told by its `error`.

| status | type | meaning | fix |
|---|---|---|---|
"""
ERRORS_TAIL = """
TorchServe itself answers these, with `code`, `type` and `message`:

| status | type | meaning | fix |
|---|---|---|---|
| 400 | `InvalidKeyException` | The token is missing, wrong or expired. | `marina token` prints one that is valid. |
| 404 | `ModelNotFoundException` | No such model is served. | `marina status` lists them, `marina register` adds one. |
| 413 | | The body is larger than `max_request_size` in `config.properties`. | Send several requests. |
| 503 | `ServiceUnavailableException` | The queue is full, or no worker is READY. | Try again later; raise `serving.queue_size`. |
| 500 | `InternalServerException` | A worker died, or did not answer in `serving.response_timeout_s`. | See the logs. |
"""


def errors_page() -> str:
    """docs/errors.md."""
    rows = [f"| {kind.status} | `{name}` | {kind.meaning} | {kind.fix} |" for name, kind in KINDS.items()]
    return ERRORS_HEAD + "\n".join(rows) + "\n" + ERRORS_TAIL


def main() -> None:
    """Write the pages of the current project."""
    (find_project().root / "docs" / "errors.md").write_text(errors_page(), encoding="utf-8")


if __name__ == "__main__":
    main()
