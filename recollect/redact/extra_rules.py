"""Our own rules, for secrets that gitleaks misses: passwords, headers, truncated keys.

They have the format of rules.json, in the syntax of RE2. A quoted password may be any word except a
placeholder. A password without quotes must look like one, because "password: required" is prose.
`least` is the minimum length of a secret.
"""

from __future__ import annotations

from typing import Any

_NAME = (
    r"(?i:[\w.-]{0,40}"
    r"(?:password|passwd|passphrase|passwort|contraseña|kennwort|mot_de_passe|pwd)[\w-]{0,20})"
)
_ASSIGNS = r"""\\{0,2}["'\x60]?\s{0,3}(?::=|=>|={1,3}|:)\s{0,3}"""

# Placeholders: variables, blanks, types, and words that describe a secret.
_PLACEHOLDERS = [
    r"^[$%{<*.\[(]",
    r"^(?i:x{3,}|\.{3,}|-{3,}|_{3,})$",
    r"^(?i)(?:string|text|str|varchar|null|none|nil|undefined|true|false|required|optional|"
    r"hidden|empty|void|char|yes|no|redacted|masked|removed|omitted|invalid|missing|unknown|"
    r"default|input|field|hash|hashed|encrypted)$",
    r"^(?i)[a-z_.\-]*(?:pass(?:word|wd|phrase|wort)?|pwd|secret|token|credential|your|my|user|"
    r"example|placeholder|here|dummy|changeme|env|config|settings)[a-z_.\-]*$",
    r"^[A-Za-z_][\w.]*[.(\[].*$",  # a call, an attribute, an index
    r"^\W+$",
]

# Names that contain "key" or "token" but do not name a secret.
EXTRA_ALLOWLISTS: dict[str, dict[str, Any]] = {
    "generic-api-key": {
        "regexTarget": "match",
        "regexes": [
            r"(?i)tokeni[sz]|token[_.-]?(?:count|id|type|limit)|"
            r"(?:cache|sort|partition|group|idempotency)[_.-]?key|"
            r"(?:sha-?\d|md5|hash|digest|checksum|etag|commit|revision|fingerprint|uuid)",
            r"(?i)\.(?:json|lock|toml|ya?ml|py|js|ts|md|txt|bin|onnx|safetensors)"
            r"""\\{0,2}["'\x60]?\s{0,3}[:=,]""",
        ],
    }
}

EXTRA_RULES: tuple[dict[str, Any], ...] = (
    {
        "id": "private-key",  # truncated, without its end
        "regex": r"(?i)-----BEGIN[ A-Z0-9_-]{0,100}PRIVATE KEY(?: BLOCK)?-----"
        r"(?:(?:\s|\\{1,2}[nr])*(?:[a-z0-9+/=]{20,}|[\w-]{1,30}: [^\s\\][^\n\\]{0,80}))*"
        r"(?:(?:\s|\\{1,2}[nr]){1,4}[a-z0-9+/=]{1,19}\z)?",
        "keywords": ["-----begin"],
        "least": 100,
    },
    {
        "id": "private-key",
        "regex": r"(?i)Private-Lines: \d{1,4}\s{1,2}"
        r"((?:[a-z0-9+/=]{2,}(?:\s{1,2}|\\{1,2}[nr]){0,2})+)",
        "keywords": ["private-lines"],
        "least": 40,
    },
    {
        "id": "password-in-url",
        "regex": r"""(?i)\b[a-z][a-z0-9+.-]{1,30}://[^\s:/?#@"'\x60<>\\]{0,200}"""
        r""":([^\s/"'\x60<>\\]{1,300})@[a-z0-9\[_%]""",
        "keywords": ["://"],
        "allowlists": [{"regexes": _PLACEHOLDERS}],
    },
    {
        "id": "password",
        "regex": _NAME
        + _ASSIGNS
        + r"""\\{0,2}(?:"([^"\s\\]{4,200})\\{0,2}"|'([^'\s\\]{4,200})\\{0,2}'"""
        + r"""|\x60([^\x60\s\\]{4,200})\x60)""",
        "keywords": ["passw", "passphrase", "pwd", "contraseña", "kennwort", "mot_de_passe"],
        "allowlists": [{"regexes": _PLACEHOLDERS}],
    },
    {
        "id": "password",
        "regex": _NAME + _ASSIGNS + r"""([^\s"'\x60\\,;&|<>()\[\]{}]{5,200})""",
        "keywords": ["passw", "passphrase", "pwd", "contraseña", "kennwort", "mot_de_passe"],
        "allowlists": [
            {"regexes": [*_PLACEHOLDERS, r"^[^0-9]*$", r"^[^A-Za-z]*$", r"^[\w.]*[:=]"]}
        ],
    },
    {
        "id": "password",  # in a shell or an .env file
        "regex": r"""\b[A-Z0-9_]{0,60}(?:PASSWORD|PASSWD|PASSPHRASE)="""
        r"""([^\s"'\x60\\;&|<>()\[\]{}$%][^\s"'\x60\\;&|<>()]{3,200})""",
        "keywords": ["passw", "passphrase"],
        "allowlists": [{"regexes": _PLACEHOLDERS}],
    },
    {
        "id": "password",  # in a connection string
        "regex": r"""(?i);\s{0,2}(?:password|pwd)\s?=\s?([^;"'\x60\s\\]{1,200})""",
        "keywords": ["password", "pwd"],
        "allowlists": [{"regexes": _PLACEHOLDERS}],
    },
    {
        "id": "azure-storage-key",
        "regex": r"(?i)\b(?:Account|SharedAccess)Key=([a-z0-9+/]{42,86}={1,2})",
        "keywords": ["accountkey=", "sharedaccesskey="],
        "entropy": 3.5,
    },
    {
        "id": "authorization",
        "regex": r"""(?i)\bauthorization\\{0,2}["'\x60]?\s{0,2}[:=,]\s{0,2}"""
        r"""\\{0,2}["'\x60]?(?:bearer|basic|token|apikey|api-key)\s{1,2}([a-z0-9._~+/=-]{12,})""",
        "keywords": ["authorization"],
        "entropy": 2.5,
        "allowlists": [{"regexes": _PLACEHOLDERS}],
    },
    {
        "id": "authorization",
        "regex": r"""\b[Bb]earer\s{1,2}([A-Za-z0-9._~+/=-]{20,})""",
        "keywords": ["bearer"],
        "entropy": 3.5,
        "allowlists": [{"regexes": [*_PLACEHOLDERS, r"^[^0-9]*$"]}],
    },
    {
        "id": "api-key",  # of model providers
        "regex": r"\b(sk-(?:or-v1-|ant-[a-z0-9]{1,12}-|proj-|svcacct-|admin-|lf-)?"
        r"[A-Za-z0-9_-]{28,220}|"
        r"gsk_[A-Za-z0-9]{40,64}|xai-[A-Za-z0-9]{60,100}|"
        r"r8_[A-Za-z0-9]{36,40}|tvly-[A-Za-z0-9-]{28,60}|AIza[\w-]{35}|"
        r"csk-[a-z0-9]{40,60}|nvapi-[\w-]{60,80})\b",
        "keywords": ["sk-", "gsk_", "xai-", "r8_", "tvly-", "aiza", "csk-", "nvapi-"],
        "entropy": 3.3,
        "allowlists": [{"regexes": [r"^[^0-9]*$", r"^[a-z-]+-[a-z-]+-[a-z-]*$"]}],
    },
)
