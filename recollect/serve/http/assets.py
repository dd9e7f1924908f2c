"""Style sheets, scripts and icons. Their address holds a hash of them all, so a browser may keep them for ever."""

from __future__ import annotations

import hashlib
from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response

from recollect.errors import NotFound
from recollect.model.sources import SOURCES

FOLDER = Path(__file__).parents[1] / "console"
_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".webmanifest": "application/manifest+json",
}
_FILES = {
    p.name: p.read_bytes() for p in sorted((FOLDER / "static").iterdir()) if p.suffix in _TYPES
}
_FILES["sources.css"] = "".join(
    f'.origin[data-origin="{source.name}"]::before {{ background: {source.colour}; }}\n'
    for source in SOURCES.values()
    if source.colour
).encode()
VERSION = hashlib.blake2b(
    b"".join(n.encode() + d for n, d in _FILES.items()), digest_size=8
).hexdigest()


def url(name: str) -> str:
    return f"/static/{VERSION}/{name}"


def serve(request: Request, version: str, name: str) -> Response:
    """One file; only those that were there at the start exist, so no path leads anywhere else."""
    data = _FILES.get(name)
    if data is None:
        raise NotFound(f"There is no file {name!r} here.")
    tag = f'"{VERSION}"'
    lasting = "public, max-age=31536000, immutable" if version == VERSION else "no-cache"
    headers = {"Cache-Control": lasting, "ETag": tag}
    if request.headers.get("if-none-match") == tag:
        return Response(status_code=304, headers=headers)
    return Response(data, headers=headers, media_type=_TYPES[Path(name).suffix])
