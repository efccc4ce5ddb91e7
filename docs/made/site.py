"""What the site shows differently than the repository: pages from outside of docs/, and links that leave it.

A hook of MkDocs, named in mkdocs.yml.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

# files of the repository by the pages that show them
PAGES = {
    "README.md": "readme.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "SECURITY.md": "reporting.md",
}
LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)#\s]*)(#[^)\s]*)?\)")
CODE = re.compile(r"(^```.*?^```)", re.MULTILINE | re.DOTALL)


def on_files(files: Files, config: Any) -> Files:
    """Add the pages that lie outside of docs/."""
    root = Path(config.config_file_path).parent
    for source, page in PAGES.items():
        files.append(File.generated(config, page, content=(root / source).read_text(encoding="utf-8")))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Let links to the repository's files lead to their pages, or show the file's name where it has none."""
    sources = {shown: source for source, shown in PAGES.items()}
    here = sources.get(page.file.src_uri, f"docs/{page.file.src_uri}")
    parts = CODE.split(markdown)
    return "".join(part if part.startswith("```") else rewritten(part, here) for part in parts)


def rewritten(markdown: str, here: str) -> str:
    """Markdown of a file of the repository with the links that its page on the site has."""
    page = PAGES.get(here, here.removeprefix("docs/"))

    def link(found: re.Match[str]) -> str:
        mark, text, target, anchor = found.groups()
        if not target or "://" in target:
            return found[0]
        path = posixpath.normpath(posixpath.join(posixpath.dirname(here), target))
        shown = PAGES.get(path) or (path.removeprefix("docs/") if path.startswith("docs/") else None)
        if shown is None or shown.endswith(".py"):
            return text if "`" in text or text == path else f"{text} (`{path}`)"
        return f"{mark}[{text}]({posixpath.relpath(shown, posixpath.dirname(page) or '.')}{anchor or ''})"

    return LINK.sub(link, markdown)
