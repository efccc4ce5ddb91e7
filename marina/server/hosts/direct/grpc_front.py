"""What comes in over gRPC: TorchServe's `Predictions`, and the Open Inference Protocol, with the URLs behind them.

gRPC does not say how large a message is before it comes. So a call is refused without a token before its message is
read, and has the memory of the largest message until it has been read.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import orjson

from handlers.worker.answering.reply import Reply
from handlers.worker.engines.packages import installed
from marina.client.messages import PACKAGE, PREDICTION, make_messages
from marina.server.hosts.direct.bodies import BODY_S, NoMemory, Share
from marina.server.hosts.direct.front import Front
from marina.server.hosts.direct.open_inference import INFER, infer_body, infer_response

# names of the same service: of Triton and KServe, and of TorchServe
INFERENCE_PACKAGES = ("inference", "org.pytorch.serve.grpc.openinference")
INPUTS = ("body", "data")  # names that clients give to what would be the body over HTTP
MAX_CALLS = 1024  # at once
MESSAGE_BYTES = 1_000_000  # the largest
IDLE_S = 300.0  # for a connection without calls
END_S = 1.0
STATUSES = {
    400: "INVALID_ARGUMENT",
    401: "PERMISSION_DENIED",  # as TorchServe says
    404: "NOT_FOUND",
    408: "DEADLINE_EXCEEDED",
    413: "RESOURCE_EXHAUSTED",
    415: "INVALID_ARGUMENT",
    429: "RESOURCE_EXHAUSTED",
    503: "UNAVAILABLE",
}
# the answer to the message of a call, which has a share of the memory
Call = Callable[[Any, Any, Share], Awaitable[Any]]


def has_grpc() -> bool:
    """Whether the packages for gRPC are installed."""
    return bool(installed("grpcio") and installed("protobuf"))


@asynccontextmanager
async def serving_grpc(front: Front, address: str) -> AsyncIterator[None]:
    """Listen on an address, such as 127.0.0.1:7070.

    Raises:
        RuntimeError: it cannot be listened on.
    """
    import grpc.aio

    options = [
        ("grpc.max_receive_message_length", MESSAGE_BYTES),
        ("grpc.max_connection_idle_ms", int(IDLE_S * 1000)),
        ("grpc.max_send_message_length", -1),
        ("grpc.so_reuseport", 0),
        ("grpc.max_metadata_size", 16_384),
        ("grpc.keepalive_time_ms", 60_000),  # clients that have gone without a word
    ]
    server = grpc.aio.server(options=options, maximum_concurrent_rpcs=MAX_CALLS)
    server.add_generic_rpc_handlers(_services(front))
    server.add_insecure_port(address)
    await server.start()
    try:
        yield
    finally:
        await asyncio.shield(server.stop(END_S))


def _services(front: Front) -> list[Any]:
    predictions = make_messages(PACKAGE, PREDICTION)
    prediction = ("PredictionsRequest", "PredictionResponse", _predictions(front, predictions))
    methods = {"Predictions": prediction, "StreamPredictions": prediction}
    services = [_service(front, f"{PACKAGE}.InferenceAPIsService", predictions, methods)]
    for package in INFERENCE_PACKAGES:
        messages = make_messages(package, INFER)
        calls = {
            "ServerLive": ("Empty", "Live", _health(front, messages["Live"], "live", "/v2/health/live")),
            "ServerReady": ("Empty", "Ready", _health(front, messages["Ready"], "ready", "/v2/health/ready")),
            "ModelReady": ("Named", "Ready", _model_ready(front, messages["Ready"])),
            "ServerMetadata": ("Empty", "ServerMetadata", _server_metadata(front, messages["ServerMetadata"])),
            "ModelMetadata": ("Named", "ModelMetadata", _model_metadata(front, messages["ModelMetadata"])),
            "ModelInfer": ("ModelInferRequest", "ModelInferResponse", _infer(front, messages["ModelInferResponse"])),
        }
        services.append(_service(front, f"{package}.GRPCInferenceService", messages, calls))
    return services


def _service(front: Front, name: str, messages: dict[str, Any], methods: dict[str, tuple[str, str, Call]]) -> Any:
    import grpc

    handlers = {}
    for method, (request, response, call) in methods.items():
        read = _reading(front, messages[request], call)
        is_stream = method.startswith("Stream")  # of one answer
        make = grpc.stream_stream_rpc_method_handler if is_stream else grpc.stream_unary_rpc_method_handler
        serializer = messages[response].SerializeToString
        handlers[method] = make(_streaming(read) if is_stream else read, response_serializer=serializer)
    return grpc.method_handlers_generic_handler(name, handlers)


def _reading(front: Front, message: Any, call: Call) -> Any:
    """A method that reads its message when it has a token and memory; those without fields need neither."""
    from google.protobuf.message import DecodeError

    async def read(parts: AsyncIterator[bytes], context: Any) -> Any:
        with front.bodies.share() as share:
            if not message.DESCRIPTOR.fields:
                return await call(message(), context, share)
            if not front.urls.allows(_headers(context)):
                await context.abort(_status(401), "send the metadata authorization: Bearer TOKEN")
            try:
                share.grow(MESSAGE_BYTES)
                content = await asyncio.wait_for(anext(parts), BODY_S)
                share.shrink(len(content))
                request = message.FromString(content)
            except NoMemory:
                await context.abort(_status(429), "messages take all the memory that they may have")
            except asyncio.TimeoutError:
                await context.abort(_status(408), f"the message did not come within {BODY_S:.0f} s")
            except (StopAsyncIteration, DecodeError):
                await context.abort(_status(400), "there is no message that can be read")
            return await call(request, context, share)

    return read


def _streaming(read: Any) -> Any:
    """A method whose one answer is a stream."""

    async def stream(parts: AsyncIterator[bytes], context: Any) -> AsyncIterator[Any]:
        yield await read(parts, context)

    return stream


def _predictions(front: Front, messages: dict[str, Any]) -> Call:
    async def predictions(request: Any, context: Any, share: Share) -> Any:
        body = next((request.input[name] for name in INPUTS if name in request.input), b"")
        version = f"/{request.model_version}" if request.model_version else ""
        reply = await _ask(front, context, share, "POST", f"/predictions/{request.model_name}{version}", body)
        if reply.status in (401, 404):
            await _refuse(context, reply)
        # other errors are in the answer, as TorchServe has them
        return messages["PredictionResponse"](prediction=reply.body)

    return predictions


def _infer(front: Front, response: Any) -> Call:
    async def infer(request: Any, context: Any, share: Share) -> Any:
        try:
            headers, body = infer_body(request)
        except ValueError as error:
            await context.abort(_status(400), str(error))
        url = _model_url(request.model_name, request.model_version)
        reply = await _ask(front, context, share, "POST", f"{url}/infer", body, headers)
        if reply.status != 200:
            await _refuse(context, reply)
        return infer_response(orjson.loads(reply.body), response(), bool(request.raw_input_contents))

    return infer


def _health(front: Front, response: Any, field: str, path: str) -> Call:
    async def health(_: Any, context: Any, share: Share) -> Any:
        return response(**{field: (await _ask(front, context, share, "GET", path)).status == 200})

    return health


def _model_ready(front: Front, response: Any) -> Call:
    async def model_ready(request: Any, context: Any, share: Share) -> Any:
        reply = await _ask(front, context, share, "GET", f"{_model_url(request.name, request.version)}/ready")
        if reply.status not in (200, 503):
            await _refuse(context, reply)
        return response(ready=reply.status == 200)

    return model_ready


def _server_metadata(front: Front, response: Any) -> Call:
    async def server_metadata(_: Any, context: Any, share: Share) -> Any:
        return response(**orjson.loads((await _ask(front, context, share, "GET", "/v2")).body))

    return server_metadata


def _model_metadata(front: Front, response: Any) -> Call:
    async def model_metadata(request: Any, context: Any, share: Share) -> Any:
        reply = await _ask(front, context, share, "GET", _model_url(request.name, request.version))
        if reply.status != 200:
            await _refuse(context, reply)
        return response(name=request.name, versions=[str(orjson.loads(reply.body)["version"])], platform="marina")

    return model_metadata


def _model_url(name: str, version: str) -> str:
    return f"/v2/models/{name}" + (f"/versions/{version}" if version else "")


def _headers(context: Any) -> dict[str, str]:
    """The metadata of a call as headers, without those that are of gRPC."""
    metadata = {name: value for name, value in context.invocation_metadata() or () if isinstance(value, str)}
    for name in ("content-type", "content-encoding", "content-length"):
        metadata.pop(name, None)
    return metadata


async def _ask(
    front: Front,
    context: Any,
    share: Share,
    method: str,
    path: str,
    body: bytes = b"",
    headers: Mapping[str, str] | None = None,
) -> Reply:
    """The reply of a URL, with the metadata of a call as further headers."""

    async def read(_: int) -> bytes:
        share.grow(len(body))  # the document may be larger than its message
        return body

    return await front.answer(method, path, {**_headers(context), **(headers or {})}, read)


async def _refuse(context: Any, reply: Reply) -> None:
    """End a call with the status and the reason of a reply."""
    document = orjson.loads(reply.body)
    await context.abort(_status(reply.status), document.get("error", ""))


def _status(status: int) -> Any:
    import grpc

    return getattr(grpc.StatusCode, STATUSES.get(status, "INTERNAL"))
