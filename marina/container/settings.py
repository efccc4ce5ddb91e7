"""The environment variables of a container."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from marina.errors import DeployError
from marina.server.hosts.table import check_host
from marina.server.run.state import DIRECT, TORCHSERVE

TOKEN = re.compile(r"[A-Za-z0-9._~+/=-]{16,256}")  # RFC 6750, and long enough not to be guessed
ARCHIVES = "/srv/marina/archives"
# as SageMaker starts a container; it authorizes callers itself, and sends no token
SAGEMAKER = "serve"


@dataclass(frozen=True)
class ContainerSettings:
    """How a container serves.

    Attributes:
        port, grpc_port, metrics_port: the ports that others reach.
        tokens: requests must bring one of them as `Authorization: Bearer TOKEN`; none if all may ask.
        archives: the folder with the archives, which need not be writable.
        models: the models to serve; all of them if empty.
        trusted: the file with the sha256 of every archive that may be served; None for no limit.
        startup_s: seconds that workers may take to become READY.
        drain_s: seconds in which requests are still answered after SIGTERM.
        host: what carries the workers, as the image has it.
        docs: whether there is a page at /docs, with the host `direct`.
        json_logs: whether each line that the container prints is a JSON object.
    """

    port: int
    grpc_port: int
    metrics_port: int
    tokens: tuple[str, ...]
    archives: str
    models: tuple[str, ...]
    trusted: str | None
    startup_s: float
    drain_s: float
    host: str
    docs: bool
    json_logs: bool

    def as_json(self) -> str:
        """The settings as JSON; `from_json` restores them."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> ContainerSettings:
        """Settings from `as_json`."""
        fields = json.loads(text)
        return cls(**{**fields, "models": tuple(fields["models"]), "tokens": tuple(fields["tokens"])})


def read_settings(environment: Mapping[str, str], arguments: list[str]) -> ContainerSettings:
    """Read the environment variables of a container.

    Args:
        environment: MARINA_PORT, MARINA_GRPC_PORT, MARINA_METRICS_PORT, MARINA_TOKEN or MARINA_TOKEN_FILE or
            MARINA_OPEN=true, MARINA_ARCHIVES (a folder), MARINA_MODELS (names with spaces between), MARINA_TRUSTED (a
            file), MARINA_STARTUP_S, MARINA_DRAIN_S, MARINA_DOCS=true, MARINA_LOGS=json; the image's MARINA_HOST; and
            SageMaker's SAGEMAKER_BIND_TO_PORT.
        arguments: of the command line: none, or "serve" as SageMaker starts containers.

    Raises:
        DeployError: a variable has no sense, or there is no token.
    """
    if arguments not in ([], [SAGEMAKER]):
        raise DeployError(f"unknown arguments {' '.join(arguments)}", "give none, or serve as SageMaker does")
    return ContainerSettings(
        port=port_of(environment),
        grpc_port=_number(environment, "MARINA_GRPC_PORT", 7070, 65535),
        metrics_port=_number(environment, "MARINA_METRICS_PORT", 8082, 65535),
        tokens=() if arguments else _tokens(environment),
        archives=environment.get("MARINA_ARCHIVES") or ARCHIVES,
        models=tuple(environment.get("MARINA_MODELS", "").split()),
        trusted=environment.get("MARINA_TRUSTED") or None,
        startup_s=_number(environment, "MARINA_STARTUP_S", 600, 86_400),
        drain_s=_number(environment, "MARINA_DRAIN_S", 25, 86_400),
        host=_host(environment),
        docs=_flag(environment, "MARINA_DOCS"),
        json_logs=json_logs(environment),
    )


def json_logs(environment: Mapping[str, str]) -> bool:
    """Whether lines are printed as JSON; DeployError if the variable has no sense."""
    text = environment.get("MARINA_LOGS", "")
    if text not in ("", "text", "json"):
        raise DeployError(f"MARINA_LOGS={text}: write json or text")
    return text == "json"


def port_of(environment: Mapping[str, str]) -> int:
    """The port for HTTP; DeployError if a variable has no sense."""
    port = _number(environment, "MARINA_PORT", 8080, 65535)
    return _number(environment, "SAGEMAKER_BIND_TO_PORT", port, 65535)


def _number(environment: Mapping[str, str], name: str, default: int, maximum: int) -> int:
    text = environment.get(name, "").strip() or str(default)
    if not text.isdecimal() or not 1 <= int(text) <= maximum:
        raise DeployError(f"{name}={text}: write a whole number from 1 to {maximum}")
    return int(text)


def _host(environment: Mapping[str, str]) -> str:
    """The host that the image has, whose name the image sets: TorchServe where it brings Java."""
    host = environment.get("MARINA_HOST") or (TORCHSERVE if environment.get("JAVA_HOME") else DIRECT)
    try:
        return check_host(host)
    except ValueError as error:
        raise DeployError(f"MARINA_HOST={host}: {error}", "leave the image's value") from None


def _flag(environment: Mapping[str, str], name: str) -> bool:
    text = environment.get(name, "")
    if text not in ("", "true", "false"):
        raise DeployError(f"{name}={text}: write true or false")
    return text == "true"


def _tokens(environment: Mapping[str, str]) -> tuple[str, ...]:
    """The tokens, with spaces or line breaks between: two while one takes the place of the other."""
    token_value, token_file = (environment.get(f"MARINA_{name}", "") for name in ("TOKEN", "TOKEN_FILE"))
    is_open = _flag(environment, "MARINA_OPEN")
    if token_file:
        try:
            token_value = Path(token_file).read_text(encoding="utf-8").strip()
        except (OSError, ValueError) as error:
            raise DeployError(f"MARINA_TOKEN_FILE={token_file} cannot be read: {error}") from None
    tokens = tuple(token_value.split())
    if not all(map(TOKEN.fullmatch, tokens)):
        raise DeployError(f"the token must match {TOKEN.pattern}", "make one with openssl rand -hex 32")
    if not tokens and not is_open:
        raise DeployError(
            "there is no token that requests must bring",
            "set MARINA_TOKEN_FILE or MARINA_TOKEN; or MARINA_OPEN=true where something in front authorizes callers",
        )
    return tokens
