"""The state of one server, shared by all of its requests."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from urllib.parse import urlsplit

from recollect import settings
from recollect.capture.upstream import Upstream
from recollect.errors import InvalidInput
from recollect.jobs.runner import HOST
from recollect.jobs.system import JobSystem
from recollect.places import change_signals, keys, shared_database
from recollect.serve.http.events import Events
from recollect.serve.http.hosts import parse_networks
from recollect.serve.http.import_jobs import Imports, Tasks
from recollect.serve.http.libraries import Libraries
from recollect.serve.http.limits import Limiter
from recollect.serve.http.metrics import Metrics
from recollect.serve.identity.auth import Authenticator
from recollect.serve.identity.principal import JwtSettings
from recollect.store.api_keys import ApiKeys


@dataclass(frozen=True, slots=True)
class ServiceConfig:
    """The configuration of a server."""

    host: str = settings.HOST.default
    port: int = settings.PORT.default
    public_hosts: tuple[str, ...] = ()
    """Host names, with or without a port, that clients may use besides those of this computer."""
    cors_origins: tuple[str, ...] = ()
    rate_per_minute: int = settings.RATE_LIMIT.default
    base_url: str = ""
    secure_cookies: bool = False
    trusted_proxies: tuple[str, ...] = ()
    """Addresses and networks whose X-Forwarded-For headers name the client."""
    user: str = ""
    """The user of requests that need no credential. By default, the one in RECOLLECT_USER."""
    jwt: JwtSettings = field(default_factory=JwtSettings)
    runs_jobs: bool = True
    """Whether the server imports and indexes; otherwise a worker does."""
    worker: int = 0
    """The number of this process, if several serve one port."""

    @property
    def is_first(self) -> bool:
        """Whether this process does what only one of several should do."""
        return self.worker == 0

    def __post_init__(self) -> None:
        if not 0 <= self.port <= 65_535:
            raise InvalidInput(f"{self.port} is not a port. Use a number from 0 to 65535.")
        if self.rate_per_minute < 0:
            raise InvalidInput(
                "The rate limit must be a number of requests per minute, or 0 for no limit."
            )
        try:
            parse_networks(self.trusted_proxies)
        except ValueError as error:
            raise InvalidInput(
                f"The trusted proxies must be addresses or networks: {error}."
            ) from error
        for origin in self.cors_origins:
            if not is_origin(origin):
                raise InvalidInput(
                    f"{origin!r} is not an origin. Write it like https://app.example, without a "
                    "path. Repeat the option for more than one."
                )
        if self.base_url and not is_origin(self.base_url):
            raise InvalidInput(
                f"{self.base_url!r} is not a base URL. Write it like https://notes.example, "
                "without a path."
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
        runs_jobs: bool | None = None,
    ) -> ServiceConfig:
        """These options, completed from the settings."""
        base_url = (settings.BASE_URL.get() if base_url is None else base_url).rstrip("/")
        hosts = list(public_hosts or settings.ALLOWED_HOSTS.get())
        if base_url and is_origin(base_url):
            hosts.append(urlsplit(base_url).netloc)
        origins = cors_origins or settings.CORS_ORIGINS.get()
        return cls(
            host=host or settings.HOST.get(),
            port=settings.PORT.get() if port is None else port,
            public_hosts=tuple(dict.fromkeys(name.lower() for name in hosts)),
            cors_origins=tuple(origin.rstrip("/") for origin in origins),
            rate_per_minute=(
                settings.RATE_LIMIT.get() if rate_per_minute is None else rate_per_minute
            ),
            base_url=base_url,
            secure_cookies=base_url.startswith("https://"),
            trusted_proxies=settings.TRUSTED_PROXIES.get(),
            user=user or "",
            jwt=JwtSettings.configured(),
            runs_jobs=settings.JOBS.get() == "server" if runs_jobs is None else runs_jobs,
        )


class Service:
    """One server's libraries, API keys, limits and metrics."""

    def __init__(
        self,
        place: Path | str,
        config: ServiceConfig | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.place = place
        self.config = config or ServiceConfig()
        self.draining = threading.Event()
        """Set when the server begins to shut down. Anything long-running ends then."""
        self.shared = shared_database(place)
        """The state that all servers of the place share."""
        self.changes = change_signals(place)
        runs_jobs = self.config.runs_jobs
        # Then a library that changes is indexed by a job, and not by a thread of its own.
        queues_indexing = self.engine == "postgresql" or not runs_jobs
        self._job_system = JobSystem(
            place, self.shared, self.changes, queues_indexing=queues_indexing
        )
        self.jobs = self._job_system.jobs
        self.libraries = Libraries(place, open_library=self._job_system.open_library)
        self.keys: ApiKeys = keys(place)
        self.limiter = Limiter(self.config.rate_per_minute, clock)
        self.auth = Authenticator(
            self.keys, self.config.jwt, self.config.host, self.config.user, clock
        )
        self.metrics = Metrics(self.libraries, place, self.jobs.counts)
        self.events = Events(self.libraries, self.changes, self.draining)
        self.imports = Imports(self.jobs, self._job_system.uploads, self.libraries.borrow)
        self.tasks = Tasks(self.jobs)
        # HOST is what only this machine can do.
        hosts = ("", HOST) if runs_jobs else (HOST,)
        self.runner = self._job_system.runner(self.libraries.borrow, hosts=hosts)

    @property
    def engine(self) -> str:
        return "sqlite" if isinstance(self.place, Path) else "postgresql"

    @cached_property
    def upstream(self) -> Upstream | None:
        """The model server, if one is configured. Raises InvalidInput for bad settings."""
        return Upstream.from_settings()

    async def disconnect(self) -> None:
        """Close the connections to the model server, if it was used."""
        upstream: Upstream | None = self.__dict__.get("upstream")
        if upstream is not None:
            await upstream.aclose()

    def start_jobs(self) -> None:
        """Run the jobs that wait, also those that an earlier run of the server has left."""
        if settings.READ_ONLY.get():
            return
        self.imports.adopt_uploads()
        self.runner.start()

    def drain(self) -> None:
        """Finish the work that outlives its request."""
        self.draining.set()
        self._job_system.stop_waiting()
        self.runner.close()

    def close(self) -> None:
        self.drain()
        self._job_system.close()
        self.libraries.close()
        self.auth.close()
        self.keys.close()
        self.shared.close()
        self.changes.close()


def is_origin(text: str) -> bool:
    parts = urlsplit(text)
    return (
        parts.scheme in ("http", "https")
        and bool(parts.netloc)
        and text == f"{parts.scheme}://{parts.netloc}"
    )
