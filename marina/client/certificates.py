"""Private certificate authorities, for servers behind TLS."""

from __future__ import annotations

import ssl
from pathlib import Path

from marina.errors import MarinaError


def check_certificates(path: str | Path) -> Path:
    """Check that a PEM file contains certificates and return its path; MarinaError if it does not."""
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cafile=path)
    except ssl.SSLError:
        raise MarinaError(f"{path} holds no certificates; give a PEM file of the authorities to trust") from None
    except OSError as error:
        raise MarinaError(
            f"the certificates {path} cannot be read: {error.strerror}; give a PEM file of the authorities to trust"
        ) from None
    return Path(path)
