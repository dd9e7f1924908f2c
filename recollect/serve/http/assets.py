"""Style sheets, scripts and icons.

Their URL contains a hash of all files, so browsers may cache them forever. They are compressed for
browsers that accept it. Pages are not: the length of a compressed page that repeats a part of the
request can reveal what else is in it.
"""

from __future__ import annotations

import gzip
import hashlib
from functools import cache
from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response

from recollect.errors import NotFound
from recollect.model.sources import SOURCES

FOLDER = Path(__file__).parents[1] / "console"
_MEDIA_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".webmanifest": "application/manifest+json",
}
_FILES = {
    path.name: path.read_bytes()
    for path in sorted((FOLDER / "static").rglob("*"))
    if path.suffix in _MEDIA_TYPES
}


_FILES["sources.css"] = "".join(
    f'.source[data-source="{source.name}"]::before {{ background: {source.colour}; }}\n'
    for source in SOURCES.values()
    if source.colour
).encode()
VERSION = hashlib.blake2b(
    b"".join(name.encode() + data for name, data in _FILES.items()), digest_size=8
).hexdigest()


def url(name: str) -> str:
    return f"/static/{VERSION}/{name}"


def serve(request: Request, version: str, name: str) -> Response:
    """Serve one file. Only files read at startup exist, so no path can lead anywhere else."""
    data = _FILES.get(name)
    if data is None:
        raise NotFound(f"There is no file {name!r}.")
    headers = {"Cache-Control": "no-cache", "ETag": f'"{VERSION}"', "Vary": "Accept-Encoding"}
    if version == VERSION:
        headers["Cache-Control"] = "public, max-age=31536000, immutable"
    if accepts_gzip(request):
        data = compress(name)
        headers |= {"ETag": f'"{VERSION}-gzip"', "Content-Encoding": "gzip"}
    if request.headers.get("if-none-match") == headers["ETag"]:
        return Response(status_code=304, headers=headers)
    return Response(data, headers=headers, media_type=_MEDIA_TYPES[Path(name).suffix])


def serve_service_worker() -> Response:
    """Serve the script with the version of the files, so that browsers replace it with them."""
    script = f'const VERSION = "{VERSION}";\n'.encode() + _FILES["service_worker.js"]
    return Response(script, media_type=_MEDIA_TYPES[".js"])


@cache
def compress(name: str) -> bytes:
    return gzip.compress(_FILES[name], mtime=0)


def accepts_gzip(request: Request) -> bool:
    for part in request.headers.get("accept-encoding", "").split(","):
        name, _, quality = part.replace(" ", "").lower().partition(";q=")
        if name == "gzip":
            return quality.strip("0.") != "" or quality == ""
    return False
