"""Authentication with API keys and tokens, valid and forged."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

import jwt
import pytest
from asgi import ADDRESS, MakeKey
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)
from fastapi import FastAPI
from starlette.responses import StreamingResponse
from starlette.testclient import TestClient

from recollect.errors import InvalidInput, StoreUnavailable
from recollect.serve.app import make_app
from recollect.serve.http import edge
from recollect.serve.http.access import AccessTo
from recollect.serve.http.service import Service, ServiceConfig
from recollect.serve.identity.accounts import new_key, revoke
from recollect.serve.identity.principal import BadToken, JwtSettings
from recollect.serve.identity.tokens import Tokens

SECRET = "0123456789abcdef0123456789abcdef"
NOW = 1_800_000_000
GOOD: dict[str, Any] = {"sub": "ann", "exp": NOW + 600}


@cache
def rsa_key(bits: int = 2048) -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(65_537, bits)


@cache
def ec_key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


def public_pem(key: Any) -> bytes:
    pem: bytes = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    return pem


def jwk(key: Any, kid: str | None = "one", **more: Any) -> dict[str, Any]:
    if isinstance(key, ec.EllipticCurvePrivateKey):
        fields = json.loads(jwt.algorithms.ECAlgorithm.to_jwk(key.public_key()))
    else:
        fields = json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(key.public_key()))
    if kid:
        fields["kid"] = kid
    return {**fields, **more}


def sign(claims: Any, header: dict[str, Any] | None = None, secret: bytes = SECRET.encode()) -> str:
    """Build a token by hand, so that it can contain anything."""
    if header is None:
        header = {"alg": "HS256", "typ": "JWT"}
    if not isinstance(claims, bytes):
        claims = json.dumps(claims).encode()
    message = encode(json.dumps(header).encode()) + b"." + encode(claims)
    signature = hmac.new(secret, message, hashlib.sha256).digest()
    return (message + b"." + encode(signature)).decode()


def encode(data: bytes) -> bytes:
    return base64.urlsafe_b64encode(data).rstrip(b"=")


@pytest.fixture
def tokens() -> Tokens:
    return Tokens(JwtSettings(secret=SECRET), lambda: NOW)


@pytest.fixture
def whoami(app: FastAPI, client: TestClient) -> Callable[..., Any]:
    """The principal the server sees for these headers."""
    add_whoami(app)
    return lambda headers=None, **more: client.get("/whoami", headers=headers, **more)


def add_whoami(app: FastAPI) -> None:
    @app.get("/whoami")
    def answer(access: AccessTo) -> dict[str, Any]:
        p = access.principal
        return {
            "user": p.user,
            "scopes": sorted(p.scopes),
            "toolsets": p.toolsets and sorted(p.toolsets),
            "agent": p.agent,
            "credential": p.credential,
        }


# -- whether a key is required ---


def test_requests_need_no_key_until_one_exists(
    whoami: Any, key: MakeKey, user: str, place: str
) -> None:
    mine = user if "://" in place else "default"
    everything = {
        "user": mine,
        "scopes": ["admin", "read", "write"],
        "toolsets": None,
        "agent": False,
        "credential": "local",
    }
    assert whoami().json() == everything
    assert whoami({"Authorization": "Bearer sk-of-another-service"}).json() == everything
    key(user=user)
    assert whoami().status_code == 401


@pytest.mark.parametrize("place", ["sqlite"], indirect=True)
def test_a_server_on_other_addresses_always_requires_a_key(place: str) -> None:
    service = Service(Path(place), ServiceConfig(host="0.0.0.0"))
    with TestClient(make_app(service), ADDRESS) as client:
        assert client.get("/openapi.json").status_code == 401
        assert client.get("/healthz").status_code == 200
    service.close()


# -- keys ---


def test_a_key_works_in_every_header(whoami: Any, key: MakeKey, user: str) -> None:
    header = key(("read",), user=user, toolsets=("bus",), agent=True)["Authorization"]
    text = header.removeprefix("Bearer ")
    expected = {
        "user": user,
        "scopes": ["read"],
        "toolsets": ["bus"],
        "agent": True,
        "credential": text[3:15],
    }
    for headers in (
        {"Authorization": header},
        {"Authorization": f"bearer  {text} "},
        {"X-API-Key": text},
        {"Authorization": header, "X-API-Key": text},
    ):
        assert whoami(headers).json() == expected
    for headers in (
        {"Authorization": f"Basic {base64.b64encode(f'{user}:{text}'.encode()).decode()}"},
        {"Authorization": text},
        {"Authorization": "Bearer"},
        {"Authorization": f"Bearer {text}x"},
        {"Authorization": f"Bearer {text[:-1]}"},
        {"Sec-WebSocket-Protocol": text},
        {"Cookie": f"recollect_key={text}"},  # as version 0.1 did
        {"Cookie": f"recollect_session={text}"},
    ):
        answer = whoami(headers)
        assert answer.status_code == 401
        assert answer.headers["www-authenticate"].startswith('Bearer realm="recollect"')
    for name in ("key", "api_key", "token", "access_token", "recollect_key"):
        assert whoami(params={name: text}).status_code == 401


def test_two_credentials_in_one_request_are_rejected(whoami: Any, key: MakeKey, user: str) -> None:
    first, second = (key(user=user)["Authorization"].removeprefix("Bearer ") for _ in "12")
    for headers in (
        [("Authorization", f"Bearer {first}"), ("X-API-Key", second)],
        [("Authorization", f"Bearer {first}"), ("Authorization", f"Bearer {second}")],
        [("X-API-Key", first), ("Cookie", f"recollect_session={second}")],
        [("Cookie", f"recollect_session={first}; recollect_session={second}")],
    ):
        assert whoami(headers).status_code == 401


def test_a_revoked_key_stops_working_at_once(
    whoami: Any, service: Service, key: MakeKey, user: str
) -> None:
    headers = key(user=user)
    assert whoami(headers).status_code == 200
    revoke(service.keys, headers["Authorization"].removeprefix("Bearer "))
    assert whoami(headers).status_code == 401


def test_an_expired_key_stops_working(
    service: Service, whoami: Any, user: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    text, api_key = new_key(service.keys, user, expires_at=datetime.now(UTC) + timedelta(days=1))
    service.auth.keys_changed()
    assert whoami({"X-API-Key": text}).status_code == 200
    past = replace(api_key, expires_at=datetime.now(UTC) - timedelta(seconds=1))
    monkeypatch.setattr(service.keys, "find", lambda id: past)
    assert whoami({"X-API-Key": text}).status_code == 401


def test_only_administrators_list_keys_and_see_no_secrets(
    client: TestClient, key: MakeKey, user: str
) -> None:
    admin, plain = key(("read", "write", "admin"), user=user), key(("read", "write"), user=user)
    secret = admin["Authorization"].split("_", 2)[2]
    for method, path in (
        ("GET", "/api/keys"),
        ("POST", "/api/keys"),
        ("DELETE", "/api/keys/x"),
        ("GET", "/metrics"),
    ):
        assert client.request(method, path, json={"user": user}).status_code == 401
        assert client.request(method, path, json={"user": user}, headers=plain).status_code == 403
    response = client.get("/api/keys", headers=admin)
    assert len(response.json()["keys"]) == 2
    assert secret not in response.text
    assert hashlib.sha256(secret.encode()).hexdigest() not in response.text
    assert not {"hash", "key", "secret"} & response.json()["keys"][0].keys()


def test_keys_are_created_and_revoked_over_http(
    client: TestClient, key: MakeKey, user: str
) -> None:
    admin = key(("admin",), user=user)
    fields = {
        "user": user,
        "name": "one",
        "scopes": ["read"],
        "expires_at": "2099-01-01T00:00:00Z",
        "agent": True,
    }
    created = client.post("/api/keys", json=fields, headers=admin)
    assert created.status_code == 201
    headers = {"X-API-Key": created.json()["key"]}
    assert client.get("/openapi.json", headers=headers).status_code == 200
    assert client.post("/api/keys", json=fields, headers=headers).status_code == 403
    assert client.delete(f"/api/keys/{created.json()['id']}", headers=admin).json()["success"]
    assert client.get("/openapi.json", headers=headers).status_code == 401
    assert client.delete("/api/keys/ffffffffffff", headers=admin).status_code == 404
    for wrong in (
        {"scopes": ["root"]},
        {"scopes": []},
        {"user": "\ud800"},
        {"user": ""},
        {"expires_at": "2001-01-01"},
        {"expires_at": "2001-01-01T00:00:00Z"},
        {"agent": "yes"},
        {"toolsets": ["../x"]},
        {"hash": "x"},
    ):
        content = json.dumps(fields | wrong)
        headers = {**admin, "Content-Type": "application/json"}
        assert client.post("/api/keys", content=content, headers=headers).status_code == 400, wrong


@pytest.mark.parametrize("place", ["sqlite"], indirect=True)
def test_no_route_answers_without_a_credential(
    app: FastAPI, client: TestClient, key: MakeKey, user: str
) -> None:
    key(user=user)
    public = {"/healthz", "/readyz", "/login", "/static/{version}/{name}"}
    requests = 0
    for path, methods in app.openapi()["paths"].items():
        for method in methods:
            answer = client.request(method, path.replace("{", "").replace("}", ""))
            assert (answer.status_code == 401) == (path not in public), (method, path)
            requests += 1
    assert requests > 5
    for path in (
        "/docs",
        "/openapi.json",
        "/metrics",
        "/",
        "/nothing",
        "/debug",
        "/.env",
        "/keys.db",
        "/static",
    ):
        assert client.get(path).status_code == 401
    health = client.get("/healthz").json()
    assert set(health) == {"status", "version", "engine", "limits"}


# -- streams ---


def test_a_stream_ends_when_its_key_is_revoked(
    service: Service,
    app: FastAPI,
    client: TestClient,
    key: MakeKey,
    user: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(edge, "RECHECK_SECONDS", 0.0)
    headers = key(user=user)

    @app.get("/stream")
    async def stream() -> StreamingResponse:
        async def parts() -> Any:
            yield b"data: 1\n\n"
            revoke(service.keys, headers["Authorization"].removeprefix("Bearer "))
            while True:
                yield b"data: 2\n\n"

        return StreamingResponse(parts(), media_type="text/event-stream")

    assert client.get("/stream", headers=headers).text == "data: 1\n\n"


# -- tokens ---


def test_a_token_determines_user_scopes_and_toolsets(tokens: Tokens) -> None:
    someone = tokens.principal(sign(GOOD))
    assert (someone.user, someone.scopes, someone.toolsets, someone.agent) == (
        "ann",
        {"read", "write"},
        None,
        False,
    )
    assert someone.credential.startswith("jwt-")
    claims = {
        **GOOD,
        "scope": "openid read",
        "agent": True,
        "toolsets": ["bus"],
        "nbf": NOW,
        "iat": NOW + 5.5,
    }
    agent = tokens.principal(sign(claims))
    assert (agent.scopes, agent.toolsets, agent.agent) == ({"read"}, {"bus"}, True)
    assert tokens.principal(sign({**GOOD, "scope": ["read", "admin"]})).scopes == {
        "read",
        "admin",
    }
    assert tokens.principal(sign({**GOOD, "scope": ""})).scopes == frozenset()
    assert tokens.principal(sign({**GOOD, "agent": "no"})).agent, (
        "in doubt it is an agent, which can see less"
    )
    assert (
        tokens.principal(sign({**GOOD, "user": "ben", "user_id": "ben", "email": "ben"})).user
        == "ann"
    )


ATTACKS: dict[str, Callable[[], str]] = {
    "no algorithm": lambda: sign(GOOD, {"alg": "none"}).rsplit(".", 1)[0] + ".",
    "no algorithm, in capitals": lambda: sign(GOOD, {"alg": "NoNe"}).rsplit(".", 1)[0] + ".",
    "no algorithm, yet signed": lambda: sign(GOOD, {"alg": "none"}),
    "algorithm missing": lambda: sign(GOOD, {"typ": "JWT"}),
    "algorithm a number": lambda: sign(GOOD, {"alg": 256}),
    "another algorithm": lambda: jwt.encode(GOOD, SECRET * 2, "HS512"),
    "signed with the public key": lambda: sign(GOOD, secret=public_pem(rsa_key())),
    "signed with the modulus": lambda: sign(
        GOOD, {"alg": "HS256", "kid": "one"}, jwk(rsa_key())["n"].encode()
    ),
    "another secret": lambda: sign(GOOD, secret=b"x" * 32),
    "empty secret": lambda: sign(GOOD, secret=b""),
    "another RSA key": lambda: jwt.encode(
        GOOD, rsa.generate_private_key(65_537, 2048), "RS256", {"kid": "one"}
    ),
    "PSS with the right key": lambda: jwt.encode(GOOD, rsa_key(), "PS256", {"kid": "one"}),
    "RS512 with the right key": lambda: jwt.encode(GOOD, rsa_key(), "RS512", {"kid": "one"}),
    "a kid that is a path": lambda: sign(GOOD, {"alg": "HS256", "kid": "../../dev/null"}, b""),
    "a kid that nobody knows": lambda: jwt.encode(GOOD, rsa_key(), "RS256", {"kid": "two"}),
    "a kid that is no text": lambda: sign(GOOD, {"alg": "RS256", "kid": {"a": 1}}),
    "its own key": lambda: jwt.encode(
        GOOD, rsa_key(3072), "RS256", {"jwk": jwk(rsa_key(3072)), "kid": "one"}
    ),
    "a key elsewhere": lambda: jwt.encode(
        GOOD, rsa_key(3072), "RS256", {"jku": "http://127.0.0.1:9/", "x5u": "http://x"}
    ),
    "unknown crit": lambda: sign(GOOD, {"alg": "HS256", "crit": ["exp", "other"], "other": 1}),
    "empty crit": lambda: sign(GOOD, {"alg": "HS256", "crit": []}),
    "a payload apart": lambda: sign(GOOD, {"alg": "HS256", "crit": ["b64"], "b64": False}),
    "expired": lambda: sign({**GOOD, "exp": NOW}),
    "expiry missing": lambda: sign({"sub": "ann"}),
    "expiry null": lambda: sign({**GOOD, "exp": None}),
    "expiry in words": lambda: sign({**GOOD, "exp": str(NOW + 600)}),
    "expiry true": lambda: sign({**GOOD, "exp": True}),
    "expiry no number": lambda: sign(b'{"sub":"ann","exp":NaN}'),
    "expiry without end": lambda: sign(b'{"sub":"ann","exp":Infinity}'),
    "expiry too large": lambda: sign(b'{"sub":"ann","exp":1e400}'),
    "expiry far away": lambda: sign({**GOOD, "exp": 10**15}),
    "expiry of many digits": lambda: sign(b'{"sub":"ann","exp":' + b"9" * 5_000 + b"}"),
    "expiry negative": lambda: sign({**GOOD, "exp": -1}),
    "expiry a list": lambda: sign({**GOOD, "exp": [NOW + 600]}),
    "not yet": lambda: sign({**GOOD, "nbf": NOW + 120}),
    "not yet, in words": lambda: sign({**GOOD, "nbf": "tomorrow"}),
    "issued tomorrow": lambda: sign({**GOOD, "iat": NOW + 86_400}),
    "issued in words": lambda: sign({**GOOD, "iat": "now"}),
    "for somebody else": lambda: sign({**GOOD, "aud": "other"}),
    "nobody": lambda: sign({"exp": NOW + 600}),
    "nobody's name": lambda: sign({**GOOD, "sub": ""}),
    "a name too long": lambda: sign({**GOOD, "sub": "x" * 501}),
    "a name that is none": lambda: sign({**GOOD, "sub": 5}),
    "a name with NUL": lambda: sign({**GOOD, "sub": "ann\0"}),
    "a name with half a character": lambda: sign(b'{"sub":"\\ud800","exp":1800000600}'),
    "a scope that is none": lambda: sign({**GOOD, "scope": {"admin": True}}),
    "scopes that are none": lambda: sign({**GOOD, "scope": [["admin"]]}),
    "toolsets that are none": lambda: sign({**GOOD, "toolsets": 1}),
    "claims that are a list": lambda: sign([1]),
    "claims that are deep": lambda: sign(b"[" * 2_000),
    "a token of a megabyte": lambda: sign({**GOOD, "x": "y" * 1_000_000}),
    "too many parts": lambda: sign(GOOD) + ".x",
    "too few parts": lambda: sign(GOOD).rsplit(".", 1)[0],
    "no parts": lambda: "..",
    "no base64": lambda: "a.ü.c",
    "a header that is no object": lambda: sign(GOOD, [1]),  # type: ignore[arg-type]
    "changed after signing": lambda: (
        sign({**GOOD, "sub": "ben"}).rsplit(".", 1)[0] + sign(GOOD)[-44:]
    ),
    "compressed": lambda: sign(GOOD, {"alg": "dir", "enc": "A128GCM", "zip": "DEF"}),
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_a_forged_token_is_rejected(attack: str, tmp_path: Path) -> None:
    keys = tmp_path / "jwks.json"
    keys.write_text(json.dumps({"keys": [jwk(rsa_key())]}))
    with pytest.raises(BadToken):
        Tokens(JwtSettings(secret=SECRET, keys=str(keys)), lambda: NOW).principal(ATTACKS[attack]())


def test_a_public_key_is_never_used_as_a_secret(tmp_path: Path) -> None:
    pem = tmp_path / "key.pem"
    pem.write_bytes(public_pem(rsa_key()))
    tokens = Tokens(JwtSettings(keys=str(pem)), lambda: NOW)
    assert tokens.principal(jwt.encode(GOOD, rsa_key(), "RS256")).user == "ann"
    for secret in (public_pem(rsa_key()), public_pem(rsa_key()).strip(), b""):
        with pytest.raises(BadToken):
            tokens.principal(sign(GOOD, secret=secret))


def test_audience_and_issuer_are_required_if_configured() -> None:
    tokens = Tokens(
        JwtSettings(secret=SECRET, audience="recollect", issuer="https://login.example"),
        lambda: NOW,
    )
    right = {**GOOD, "aud": ["other", "recollect"], "iss": "https://login.example"}
    assert tokens.principal(sign(right)).user == "ann"
    for wrong in (
        {"aud": "other"},
        {"aud": None},
        {"aud": 5},
        {"iss": "https://evil.example"},
        {"iss": None},
        {"iss": ["https://login.example"]},
    ):
        with pytest.raises(BadToken):
            tokens.principal(sign({**right, **wrong}))
    for missing in ("aud", "iss"):
        with pytest.raises(BadToken):
            tokens.principal(sign({k: v for k, v in right.items() if k != missing}))


@pytest.mark.parametrize("kind", ["RS256", "ES256"])
@pytest.mark.parametrize("form", ["jwks", "jwk", "pem", "no kid"])
def test_tokens_signed_with_a_private_key_are_accepted(
    kind: str, form: str, tmp_path: Path
) -> None:
    key = rsa_key() if kind == "RS256" else ec_key()
    file = tmp_path / "keys"
    file.write_bytes(
        {
            "jwks": json.dumps(
                {"keys": [jwk(key, alg=kind, use="sig"), jwk(rsa_key(3072), "other")]}
            ).encode(),
            "jwk": json.dumps(jwk(key)).encode(),
            "pem": public_pem(key),
            "no kid": json.dumps({"keys": [jwk(rsa_key(3072), "other"), jwk(key, None)]}).encode(),
        }[form]
    )
    tokens = Tokens(JwtSettings(keys=str(file)), lambda: NOW)
    header = {} if form == "no kid" else {"kid": "one"}
    assert tokens.principal(jwt.encode(GOOD, key, kind, header)).user == "ann"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (lambda _: JwtSettings(secret="short"), "at least 32 bytes"),
        (
            lambda _: JwtSettings(secret=public_pem(rsa_key()).decode()),
            "contains a key, not a secret",
        ),
        (lambda f: JwtSettings(keys=str(f / "missing")), "cannot read the file"),
        (lambda f: JwtSettings(keys=str(write_file(f, b"hello"))), "neither a JWKS nor"),
        (lambda f: JwtSettings(keys=str(write_file(f, private_pem()))), "neither a JWKS nor"),
        (lambda _: JwtSettings(keys="http://keys.example/jwks"), "https://"),
    ],
)
def test_invalid_settings_are_rejected_at_startup(
    settings: Any, message: str, tmp_path: Path
) -> None:
    with pytest.raises(InvalidInput, match=message):
        Tokens(settings(tmp_path))


def write_file(folder: Path, content: bytes) -> Path:
    (folder / "file").write_bytes(content)
    return folder / "file"


def private_pem() -> bytes:
    return rsa_key().private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


# -- keys fetched from a URL ---


def test_keys_are_fetched_over_http(tmp_path: Path) -> None:
    from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, content = {
                "/keys": (200, json.dumps({"keys": [jwk(rsa_key())]}).encode()),
                "/long": (200, b"[" + b" " * 2_000_000),
            }.get(self.path, (302, b""))
            self.send_response(status)
            self.send_header("Location", "/keys")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            with suppress(OSError):
                self.wfile.write(content)

        def log_message(self, format: str, *args: Any) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_address[1]}"
        token = jwt.encode(GOOD, rsa_key(), "RS256", {"kid": "one"})
        assert (
            Tokens(JwtSettings(keys=f"{address}/keys"), lambda: NOW).principal(token).user == "ann"
        )
        for path in ("/elsewhere", "/long"):
            with pytest.raises(StoreUnavailable):
                Tokens(JwtSettings(keys=address + path), lambda: NOW).principal(token)
        server.shutdown()


# -- tokens over HTTP ---


@pytest.mark.parametrize(
    "extra",
    [
        {"X-User": "ben"},
        {"X-Forwarded-User": "ben"},
        {"Remote-User": "ben"},
        {"X-User-Id": "ben"},
        {"Cookie": "user=ben; user_id=ben"},
    ],
)
def test_only_the_credential_determines_the_user(
    whoami: Any, key: MakeKey, user: str, extra: dict[str, str]
) -> None:
    headers = key(user=user) | extra
    parameters = {
        "user": "ben",
        "user_id": "ben",
        "owner": "ben",
        "_context": '{"user":"ben"}',
        "db_paths": "/tmp",
    }
    assert whoami(headers, params=parameters).json()["user"] == user


def test_users_with_any_name_have_their_own_library_inside_the_home(
    service: Service, app: FastAPI, client: TestClient, key: MakeKey, user: str, tmp_path: Path
) -> None:
    before = {p for p in tmp_path.rglob("*") if "home" not in p.parts}
    names = [
        f"../{user}",
        f"{user}/",
        f"{user}%2f",
        user.upper(),
        f"{user} b\u00f6b",
        f"{user} bo\u0308b",
        user,
        f"{user}/../{user}",
        (user + "x" * 500)[:500],
        f"con-{user}",
        f"..{user}",
        f"{user}\n",
        f" {user}",
    ]
    for n, name in enumerate(names):
        with service.libraries.borrow(name) as library:
            library.add_conversation(f"c{n}", messages=[{"role": "user", "content": f"of {n}"}])
    for n, name in enumerate(names):
        with service.libraries.borrow(name) as library:
            assert [s.source_id for s in library.conversation_page()[0]] == [f"c{n}"]
    assert {p for p in tmp_path.rglob("*") if "home" not in p.parts} == before
    for refused in ("", "x" * 501):
        with pytest.raises(InvalidInput):
            key(user=refused or None) if refused else new_key(service.keys, refused)
