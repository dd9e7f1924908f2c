"""The plurals of acronyms: PDF and PDFs, GPU and GPUs.

The English stemmer removes a plural "s" only if there is a vowel earlier in the word, but not just
before the "s". So it takes singular and plural for different words.
"""

from __future__ import annotations

import re

_CONSONANT = "[bcdfghjklmnpqrstvwxz]"
# Words without a vowel, or with one at the end. They may as well be other words, such as "spa".
_SINGULAR = re.compile(f"{_CONSONANT}{{2,5}}|{_CONSONANT}{{2,4}}[aiou]")
# Their last letter is not a plural.
_SINGULAR_IN_S = """
    bbs cms dns dss fps gcs gps hls mrs nfs nhs nps ntfs pms rts sds sls sms tls tts vfs vps wps
"""
_ENDING_IN_S = frozenset(_SINGULAR_IN_S.split())


def singular_or_plural(word: str) -> str:
    """The singular of a plural acronym, or the plural of a singular one; else empty."""
    singular, plural = word, f"{word}s"
    other = plural
    if word.endswith("s"):
        singular, plural = word[:-1], word
        other = singular
    if plural in _ENDING_IN_S or singular.endswith("s") or not _SINGULAR.fullmatch(singular):
        return ""
    return other
