"""The state of one server: what its requests share. Made once, closed once."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from recollect import settings
from recollect.errors import InvalidInput
from recollect.places import keys
from recollect.serve.http.auth import Authenticator, JwtSettings
from recollect.serve.http.libraries import Libraries
from recollect.serve.http.limits import Limiter
from recollect.serve.http.metrics import Metrics
from recollect.store.api_keys import Keys

if TYPE_CHECKING:
    from recollect.capture.proxy.upstream import Upstream
    from recollect.serve.http.events import Events
    from recollect.serve.http.jobs import Jobs


@dataclass(frozen=True, slots=True)
class ServiceConfig:
    """How a server is set up."""

    host: str = settings.HOST.default
    port: int = settings.PORT.default
    public_hosts: tuple[str, ...] = ()
    """Names, with a port or without, under which it may be asked besides those of this computer."""
    cors_origins: tuple[str, ...] = ()
    rate_per_minute: int = settings.RATE_LIMIT.default
    base_url: str = ""
    secure_cookies: bool = False
    user: str = ""
    """Who everybody is while nobody needs a key; by default as RECOLLECT_USER says."""
    jwt: JwtSettings = field(default_factory=JwtSettings)

    def __post_init__(self) -> None:
        if not 0 <= self.port <= 65_535:
            raise InvalidInput(f"{self.port} is no port; use 0 to 65535.")
        if self.rate_per_minute < 0:
            raise InvalidInput("The rate limit is a number of requests a minute, or 0 for none.")
        for origin in self.cors_origins:
            parts = urlsplit(origin)
            if (
                parts.scheme not in ("http", "https")
                or not parts.netloc
                or origin != f"{parts.scheme}://{parts.netloc}"
            ):
                raise InvalidInput(
                    f"{origin!r} is no origin; write it as https://app.example, one for each site."
                )
        if self.base_url and not _is_address(self.base_url):
            raise InvalidInput(
                f"{self.base_url!r} is no address; write it as https://notes.example, without a path."
            )

    @classmethod
    def configured(
        cls,
        *,
        host: str | None = None,
        port: int | None = None,
        public_hosts: tuple[str, ...] = (),
        cors_origins: tuple[str, ...] = (),
        rate_per_minute: int | None = None,
        base_url: str | None = None,
        user: str | None = None,
    ) -> ServiceConfig:
        """What was said, else what the settings say."""
        if base_url is None:
            base_url = settings.BASE_URL.get()
        base = base_url.rstrip("/")
        if port is None:
            port = settings.PORT.get()
        if rate_per_minute is None:
            rate_per_minute = settings.RATE_LIMIT.get()
        hosts = public_hosts or settings.ALLOWED_HOSTS.get()
        if base and _is_address(base):
            hosts = tuple(dict.fromkeys([*hosts, urlsplit(base).netloc.lower()]))
        return cls(
            host=host or settings.HOST.get(),
            port=port,
            public_hosts=tuple(name.lower() for name in hosts),
            cors_origins=tuple(
                origin.rstrip("/") for origin in cors_origins or settings.CORS_ORIGINS.get()
            ),
            rate_per_minute=rate_per_minute,
            base_url=base,
            secure_cookies=base.startswith("https://"),
            user=user or "",
            jwt=JwtSettings.configured(),
        )


class Service:
    """One server's libraries, keys, limits and metrics."""

    def __init__(
        self,
        place: Path | str,
        config: ServiceConfig | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.place = place
        self.config = config or ServiceConfig()
        self.draining = threading.Event()
        """Set when the server begins to shut down: whatever goes on for long shall end."""
        self.libraries = Libraries(place)
        self.keys: Keys = keys(place)
        self.limiter = Limiter(self.config.rate_per_minute, clock)
        self.auth = Authenticator(
            self.keys, self.config.jwt, self.config.host, self.config.user, clock
        )
        self.metrics = Metrics(self.libraries)

    @property
    def engine(self) -> str:
        return "sqlite" if isinstance(self.place, Path) else "postgresql"

    @cached_property
    def events(self) -> Events:
        from recollect.serve.http.events import Events

        return Events(self)

    @cached_property
    def jobs(self) -> Jobs:
        from recollect.serve.http.jobs import Jobs

        return Jobs(self)

    @cached_property
    def upstream(self) -> Upstream | None:
        from recollect.capture.proxy.upstream import Upstream

        return Upstream.configured()

    def drain(self) -> None:
        """Finish what was accepted: jobs that go on after their request was answered."""
        self.draining.set()
        if "jobs" in self.__dict__:
            self.jobs.drain()

    def close(self) -> None:
        self.draining.set()
        for name in ("jobs", "events", "upstream"):
            close = getattr(self.__dict__.get(name), "close", None)
            if close is not None:
                close()
        self.libraries.close()
        self.auth.close()
        self.keys.close()


def _is_address(text: str) -> bool:
    parts = urlsplit(text)
    return (
        parts.scheme in ("http", "https")
        and bool(parts.netloc)
        and not (parts.path or parts.query or parts.fragment)
    )
