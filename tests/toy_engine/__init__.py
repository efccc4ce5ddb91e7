"""An engine from outside: two small files, and entry points that name them, as an installed package has them."""

from __future__ import annotations

from pathlib import Path

FOLDER = Path(__file__).parent  # to be on the path of Python: what lies in it is then installed
