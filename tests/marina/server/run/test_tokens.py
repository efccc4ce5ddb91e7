import json
import threading
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from marina.errors import ServerError
from marina.server.run.tokens import KEY_FILE, token


def write_keys(folder: Path, key: str, minutes: float) -> None:
    expires = (datetime.now(timezone.utc) + timedelta(minutes=minutes)).strftime("%Y-%m-%dT%H:%M:%S.123456789Z")
    entry = {"key": key, "expiration time": expires}
    (folder / KEY_FILE).write_text(json.dumps({"inference": entry, "management": entry, "API": {"key": "api"}}))


@pytest.fixture
def token_api(tmp_path: Path) -> Iterator[int]:
    """Renews tokens as TorchServe does; gives its port."""

    class Renew(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            allowed = self.headers["Authorization"] == "Bearer api" and self.path == "/token?type=inference"
            if allowed:
                write_keys(tmp_path, "new", minutes=60)
            self.send_response(200 if allowed else 400)
            self.end_headers()

        def log_message(self, *args: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Renew) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server.server_port
        server.shutdown()
        thread.join()


def test_a_valid_token_is_read_from_the_file(tmp_path: Path) -> None:
    write_keys(tmp_path, "old", minutes=5)
    assert token(tmp_path, "inference", 1) == "old"


def test_an_expired_token_is_renewed(tmp_path: Path, token_api: int) -> None:
    write_keys(tmp_path, "old", minutes=0.5)
    assert token(tmp_path, "inference", token_api) == "new"


def test_a_refused_renewal_is_said_so(tmp_path: Path, token_api: int) -> None:
    write_keys(tmp_path, "old", minutes=-1)
    with pytest.raises(ServerError, match="the server gives no new management token: 400"):
        token(tmp_path, "management", token_api)


def test_a_missing_key_file_is_said_so(tmp_path: Path) -> None:
    with pytest.raises(ServerError, match=r"no tokens yet: .*key_file\.json is missing; wait until it has started"):
        token(tmp_path, "inference", 1)


def test_a_damaged_key_file_is_said_so(tmp_path: Path) -> None:
    (tmp_path / KEY_FILE).write_text("{")
    with pytest.raises(ServerError, match=r"key_file\.json with the server's tokens cannot be read.*; start it again"):
        token(tmp_path, "inference", 1)
