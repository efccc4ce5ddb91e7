"""The tokens of a running server, which it writes to `key_file.json` in its working folder in TorchServe's form."""

from __future__ import annotations

import json
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any, Literal

import requests

from marina.errors import ServerError

Kind = Literal["inference", "management"]
KEY_FILE = "key_file.json"
EXPIRY_MARGIN = timedelta(minutes=1)
TIMEOUT_S = 10


def token(folder: Path, kind: Kind, management_port: int) -> str:
    """A token that is valid for at least one more minute; if necessary, the server issues a new one.

    Args:
        folder: the server's working folder.
        kind: "inference" or "management".
        management_port: port that issues new tokens.

    Raises:
        ServerError: there is no key file, or the server issued no new token.
    """
    entry = _read(folder)[kind]
    if _expires(entry) - EXPIRY_MARGIN > datetime.now(timezone.utc):
        return str(entry["key"])
    _renew(folder, kind, management_port)
    return str(_read(folder)[kind]["key"])


def loopback_session() -> requests.Session:
    """A session for this machine: no proxy from the environment sees its tokens, and no netrc replaces them."""
    session = requests.Session()
    session.trust_env = False
    return session


def _read(folder: Path) -> Any:
    path = folder / KEY_FILE
    try:
        return json.loads(path.read_text())
    except FileNotFoundError:
        raise ServerError(f"the server has no tokens yet: {path} is missing", "wait until it has started") from None
    except (OSError, ValueError) as error:
        raise ServerError(f"{path} with the server's tokens cannot be read: {error}; start it again") from None


def _expires(entry: dict[str, str]) -> datetime:
    """The time at which a token expires, without TorchServe's nanoseconds, which Python 3.10 cannot parse."""
    return datetime.strptime(entry["expiration time"][:19], "%Y-%m-%dT%H:%M:%S").replace(tzinfo=timezone.utc)


def _renew(folder: Path, kind: Kind, management_port: int) -> None:
    url = f"http://127.0.0.1:{management_port}/token?type={kind}"
    headers = {"Authorization": f"Bearer {_read(folder)['API']['key']}"}
    try:
        with loopback_session() as session:
            session.get(url, headers=headers, timeout=TIMEOUT_S).raise_for_status()
    except requests.RequestException as error:
        raise ServerError(f"the server gives no new {kind} token: {error}") from None
