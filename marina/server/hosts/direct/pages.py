"""What a browser gets: a page with the served models and a form to try each, and the OpenAPI document."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Mapping
from pathlib import Path

from handlers.worker.answering.reply import JSON, Reply
from marina.server.openapi import openapi

PAGE = Path(__file__).with_name("page.html")
EMBEDDED = re.compile(r"<(script|style)>(.*?)</\1>", re.DOTALL)


def pages() -> Mapping[str, Reply]:
    """The replies to GET, by path. They hold no names of models: the page asks for them with the user's token."""
    html = PAGE.read_text(encoding="utf-8")
    document = {**openapi(), "servers": [{"url": "/"}]}
    return {
        "/docs": Reply(200, html.encode(), _headers(html), "text/html; charset=utf-8"),
        "/openapi.json": Reply(200, json.dumps(document).encode(), {}, JSON),
    }


def _headers(html: str) -> Mapping[str, str]:
    """Headers that let a page run its own script alone, and speak to its own server alone."""
    sources = {kind: f"'sha256-{_digest(content)}'" for kind, content in EMBEDDED.findall(html)}
    policy = "; ".join(
        [
            "default-src 'none'",
            "connect-src 'self'",
            f"script-src {sources['script']}",
            f"style-src {sources['style']}",
            "base-uri 'none'",
            "form-action 'none'",
            "frame-ancestors 'none'",
        ]
    )
    return {"content-security-policy": policy, "x-content-type-options": "nosniff", "referrer-policy": "no-referrer"}


def _digest(content: str) -> str:
    return base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
