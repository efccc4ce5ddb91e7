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


OF_DIRECT = (
    ("401", "`Unauthorized`", "The token is missing or wrong.", "`marina token` prints the token."),
    (
        "403",
        "`WrongHost`",
        "With `--no-auth`, the URL names another host, or a page of another site asks.",
        "Use 127.0.0.1.",
    ),
    (
        "404",
        "`UnknownModel`",
        "No model of this name, or no such version of it, is served.",
        "The message names the nearest.",
    ),
    (
        "404, 405",
        "`NotFound`, `MethodNotAllowed`",
        "There is no such URL, or not for this method.",
        "The message names those that exist.",
    ),
    ("408", "`RequestTimeout`", "The body did not come within 60 seconds.", "Send it faster, or in several requests."),
    ("503", "`NotReady`", "No worker of the model is READY.", "Try again later. Read `marina logs`."),
    (
        "503",
        "`Overloaded`",
        "All bodies together have as many bytes as they may.",
        "Try again later, or send smaller requests.",
    ),
    ("503", "`Stopping`", "The model is upgraded, unregistered or stopped.", "Send the request again."),
    ("503", "`WorkerDied`", "Two workers died while they had the request.", "Read `marina logs`."),
)


def errors_page() -> str:
    """docs/reference/errors.md."""
    ours = table(COLUMNS, [(str(kind.status), f"`{name}`", kind.meaning, kind.fix) for name, kind in KINDS.items()])
    theirs = table(COLUMNS, OF_TORCHSERVE)
    direct = table(COLUMNS, OF_DIRECT)
    return (
        f"{HEAD}\n{ours}\n\nTorchServe itself sends these, with `code`, `type` and `message`:\n\n{theirs}\n\n"
        "The [host `direct`](../guides/hosts.md) itself sends these; Ray Serve those that are not about connections:\n\n"
        f"{direct}\n"
    )
