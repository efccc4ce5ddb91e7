"""The release of TorchServe that is installed."""

from __future__ import annotations

from packaging.version import Version

from handlers.worker.engines.packages import installed
from marina.errors import ServerError

TESTED_RELEASE = "0.12.0"  # the release that Marina is tested with
MIN_RELEASE = Version("0.11.1")  # older releases have no tokens


def check_release() -> None:
    """Refuse a TorchServe that would serve without tokens, and so answer every user of this machine.

    Raises:
        ServerError: the installed release has no tokens.
    """
    release = installed("torchserve")
    if release and Version(release) < MIN_RELEASE:
        raise ServerError(
            f"TorchServe {release} has no token authorization", f"pip install --no-deps torchserve=={TESTED_RELEASE}"
        )
