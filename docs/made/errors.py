"""reference/errors.md: every kind of error that a request can meet."""

from __future__ import annotations

from docs.made.tables import table
from handlers.worker.errors import KINDS

COLUMNS = ("status", "type", "meaning", "what to do")
HEAD = """# Errors

<!-- Made from handlers/worker/errors.py by make docs; do not edit. -->

A bad request fails alone: the other requests in its batch are answered. If one instance of a request is bad, the whole request fails,
and the message names the instance. The body of the answer gives the cause and the fix:

```json
{"code": 400, "type": "InvalidInstance", "error": "inputs[3] must be a text or {\\"text\\": ...}, not a number", "fix": "..."}
```

TorchServe reports no status for a single gRPC request in a batch. Over gRPC you get the same body, and the key `error` marks it as a failure.
"""
OF_TORCHSERVE = (
    ("400", "`InvalidKeyException`", "The token is missing, wrong or expired.", "`marina token` prints a valid token."),
    ("400", "`BadRequestException`", "A call of the management API has wrong parameters.", "The message names them."),
    (
        "404",
        "`ModelNotFoundException`, `ModelVersionNotFoundException`",
        "No model of this name, or no such version of it, is registered.",
        "`marina status` lists the models, `marina register` adds one.",
    ),
    ("404", "`ResourceNotFoundException`", "The URL is not one of TorchServe's.", "Use `/predictions/NAME`."),
    ("405", "`MethodNotAllowedException`", "The URL exists, but not for this method.", "Send predictions with POST."),
    ("409", "`ConflictStatusException`", "This version of the model is registered.", "`marina upgrade NAME`."),
    (
        "413",
        "",
        "The body is larger than `max_request_size` in `config.properties`. The answer has no body, and the connection ends.",
        "Send several requests.",
    ),
    (
        "500",
        "`InternalServerException`: Worker died.",
        "A worker died while it had the request, or took longer than `serving.response_timeout_s`.",
        "Send the request again. Read `marina logs`.",
    ),
    (
        "500",
        "`InternalServerException`: Worker scaled down.",
        "The model was scaled, or unregistered over the management API, while the worker had the request.",
        "Send the request again. `marina upgrade`, `marina unregister` and `marina stop` wait for requests first.",
    ),
    (
        "500",
        "`ArrayIndexOutOfBoundsException`",
        "The URL is `*`, as in `POST *`.",
        "Send a URL that begins with `/`.",
    ),
    (
        "503",
        "`ServiceUnavailableException`: Model ... has no worker to serve inference request. Please use scale workers API ...",
        "The queue is full, or no worker is READY, or the server is stopping. TorchServe has one text for all of these; "
        "more workers help only if the first is the case and cores are free. It sends no `Retry-After`.",
        "Try again later, or raise `serving.queue_size`.",
    ),
    (
        "503",
        "`InternalServerException`: Prediction failed",
        "The handler raised an exception. Archives of Marina answer 500 `Unexpected` instead.",
        "Read `marina logs`.",
    ),
    (
        "507",
        "`InternalServerException`: Worker died.",
        "The worker was killed with signal 9 while it had the request, as the kernel does when memory runs out.",
        "Send the request again. If it happens often, look for `Out of memory` in the kernel's log.",
    ),
    (
        "none",
        "",
        "The request waited 25 seconds longer than `serving.deadline_ms`, or a worker died in the moment in which it got the request: "
        "TorchServe then sends nothing at all.",
        "Let clients give up after a while, and send the request again. `Client` does so by itself.",
    ),
)


def errors_page() -> str:
    """docs/reference/errors.md."""
    ours = table(COLUMNS, [(str(kind.status), f"`{name}`", kind.meaning, kind.fix) for name, kind in KINDS.items()])
    theirs = table(COLUMNS, OF_TORCHSERVE)
    return f"{HEAD}\n{ours}\n\nTorchServe itself sends these, with `code`, `type` and `message`:\n\n{theirs}\n"
