"""The picture of a character: from its card, or a drawing of its initial."""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Mapping
from html import escape

from recollect.language.text import storable
from recollect.library import Library
from recollect.model.documents import Json
from recollect.serve.console.tabs import CHARACTERS
from recollect.serve.identity.principal import Principal
from recollect.serve.masking import mask_passage

IMAGE_TYPES = frozenset(
    ("image/png", "image/apng", "image/jpeg", "image/webp", "image/gif", "image/avif")
)


def portrait(library: Library, principal: Principal, id: str) -> tuple[str, bytes]:
    """The media type and the bytes of a character's picture. Raises NotFound."""
    summary = library.knowledge.find(CHARACTERS, id)
    passages, _ = library.messages(summary.id, 0, 1)
    for passage in passages:
        for attachment in mask_passage(passage, principal.audience).attachments:
            image = _decode_image(attachment)
            if image is not None:
                return image
    return "image/svg+xml", _draw_initial(summary.title)


def _decode_image(attachment: Json) -> tuple[str, bytes] | None:
    if not isinstance(attachment, Mapping):
        return None
    media_type = attachment.get("media_type")
    if media_type not in IMAGE_TYPES:
        return None
    try:
        data = base64.b64decode(str(attachment.get("data")), validate=True)
    except (binascii.Error, ValueError):
        return None
    return str(media_type), data


def _draw_initial(name: str) -> bytes:
    digest = hashlib.blake2b(storable(name).encode(), digest_size=2).digest()
    hue = int.from_bytes(digest) % 360
    initial = next((char.upper()[:1] for char in storable(name) if char.isalnum()), "?")
    svg = (
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 100 100">'
        f'<rect width="100" height="100" fill="hsl({hue} 32% 46%)"/>'
        '<text x="50" y="50" dy=".35em" text-anchor="middle" font-family="system-ui, sans-serif" '
        f'font-size="46" font-weight="600" fill="#fff">{escape(initial)}</text></svg>'
    )
    return svg.encode()
