"""Which tokens are accepted. Verifying them takes modules that few servers need."""

from __future__ import annotations

from dataclasses import dataclass, field

from recollect import settings
from recollect.errors import InvalidInput

MIN_SECRET_BYTES = 32


class BadToken(Exception):
    """The token is not valid."""


@dataclass(frozen=True, slots=True)
class JwtSettings:
    """Which tokens are accepted. Without a secret or keys, none are."""

    secret: str = field(default="", repr=False)
    keys: str = ""
    """The URL of a JWKS, or a file with a JWKS or a public key in PEM."""
    audience: str = ""
    issuer: str = ""

    @classmethod
    def configured(cls) -> JwtSettings:
        return cls(
            settings.JWT_SECRET.get(),
            settings.JWT_KEYS.get(),
            settings.JWT_AUDIENCE.get(),
            settings.JWT_ISSUER.get(),
        )

    def __bool__(self) -> bool:
        return bool(self.secret or self.keys)

    def __post_init__(self) -> None:
        if self.secret and len(self.secret.encode()) < MIN_SECRET_BYTES:
            raise InvalidInput(
                f"RECOLLECT_JWT_SECRET must have at least {MIN_SECRET_BYTES} bytes. "
                "Create one with: openssl rand -hex 32"
            )
        if self.secret.lstrip().startswith(("-----BEGIN", "ssh-", "{")):
            raise InvalidInput(
                "RECOLLECT_JWT_SECRET contains a key, not a secret. "
                "Set RECOLLECT_JWT_KEYS to the name of the key's file instead."
            )
