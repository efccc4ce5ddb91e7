"""What a person runs: compile, pack, serve and predict.

For programs, `marina.Client` sends requests and `marina.read_archive` says what an archive holds, and
`marina.read_artifacts` what a bundle holds. `marina.Scorer` answers Arrow batches without a server.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from marina.archive.read import read_archive, read_artifacts
    from marina.client import Client
    from marina.score.scorer import Scorer

    __version__: str

__all__ = ["Client", "Scorer", "__version__", "read_archive", "read_artifacts"]

# where an installed Marina keeps the package `handlers`; in the repository it is found beside this one first
sys.path.append(str(Path(__file__).parent / "bundled"))


def __getattr__(name: str) -> Any:
    """Import these when they are used: commands need none."""
    if name == "Client":
        from marina.client import Client

        return Client
    if name == "Scorer":
        from marina.score.scorer import Scorer

        return Scorer
    if name == "__version__":
        from importlib.metadata import version

        return version("marina-serving")
    if name in ("read_archive", "read_artifacts"):
        from marina.archive import read

        return getattr(read, name)
    raise AttributeError(f"module 'marina' has no attribute {name!r}")
