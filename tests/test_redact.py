"""Secrets in text: what is one, what is none, and what is left of one."""

from __future__ import annotations

import base64
import json
import random
import string
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recollect import redact
from recollect.importers.items import (
    Cue,
    cues_of,
    text_of,
    with_cues,
    with_fields,
    with_text,
)
from recollect.model.documents import Document, Passage
from recollect.redact.documents import redact_document
from recollect.redact.redactor import redact_parts, redact_text, redact_value

LETTERS = string.ascii_letters + string.digits


def made(length: int, letters: str = LETTERS, seed: int = 1) -> str:
    """Letters that nobody's key has."""
    return "".join(random.Random(seed * 1_000 + length).choices(letters, k=length))


def jwt() -> str:
    header, claims = ({"alg": "HS256", "typ": "JWT"}, {"sub": "1234567890", "name": "Ann Example"})
    parts = [
        base64.urlsafe_b64encode(json.dumps(p).encode()).rstrip(b"=").decode()
        for p in (header, claims)
    ]
    return ".".join([*parts, made(43)])


KEY = "\n".join(made(64, LETTERS + "+/", n) for n in range(12))
PEM = f"-----BEGIN RSA PRIVATE KEY-----\n{KEY}\n-----END RSA PRIVATE KEY-----"
HEX = made(32, "0123456789abcdef")

SECRETS = {
    "aws-access-token": (
        "The id is {} they said.",
        "AKIA" + made(16, "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"),
    ),
    "github-pat": ("use {}, please", "ghp_" + made(36)),
    "github-fine-grained-pat": ("({})", "github_pat_" + made(82)),
    "gitlab-pat": ("git clone with {}.", "glpat-" + made(20)),
    "slack-bot-token": (
        "SLACK={}",
        f"xoxb-{made(12, '0123456789')}-{made(12, '0123456789')}-{made(24)}",
    ),
    "stripe-access-token": ("charge it with {}", "sk_live_" + made(24)),
    "anthropic-api-key": ("`{}`", f"sk-ant-api03-{made(93)}AA"),
    "openai-api-key": ("export OPENAI_API_KEY={}", f"sk-proj-{made(74)}T3BlbkFJ{made(74, seed=2)}"),
    "api-key": ("<key>{}</key>", "sk-or-v1-" + made(64, "0123456789abcdef")),
    "huggingface-access-token": ("login({!r})", "hf_" + made(34, string.ascii_lowercase)),
    "npm-access-token": (
        "//npmjs.org/:_authToken={}",
        "npm_" + made(36, string.ascii_lowercase + "0123456789"),
    ),
    "sendgrid-api-token": ("mail: {}", "SG." + made(66, string.ascii_lowercase + "0123456789=_")),
    "jwt": ("It answers {}, which is wrong", jwt()),
    "private-key": ("Here it is:\n{}\nwhat now?", PEM),
    "generic-api-key": ('{{"client_secret": "{}"}}', made(40)),
    "password": ('password = "{}"', "correct-horse"),
    "password-in-url": (
        "postgresql://ann:{}@db.example:5432/notes",
        "s3cr3t/of@ann".replace("/", "%2F"),
    ),
    "authorization": ("Authorization: Bearer {}", made(40)),
    "azure-storage-key": (
        "AccountName=x;AccountKey={};EndpointSuffix=y",
        made(86, LETTERS + "+/") + "==",
    ),
}


@pytest.mark.parametrize("kind", SECRETS)
def test_a_secret_becomes_its_kind(kind: str) -> None:
    around, secret = SECRETS[kind]
    text, found = redact_text(around.format(secret))
    assert secret not in text and sum(found.values()) == 1
    (known,) = found
    assert text.replace("'", "") == around.format(f"[redacted:{known}]").replace("'", "")
    assert known == kind
    assert redact_text(text) == (text, Counter())


@pytest.mark.parametrize(
    "text",
    [
        "password: Tr0ub4dor&3",
        "DB_PASSWORD=correcthorsebatterystaple",
        "export PGPASSWORD='correct-horse'",
        '{"user": "ann", "password": "hunter2"}',
        r'{"arguments": "{\"password\": \"hunter2\"}"}',
        "Server=db;Database=x;User Id=sa;Password=abc;",
        'redis = Redis.from_url("redis://:hunter2@cache:6379/0")',
        f'headers = {{"Authorization": "Bearer {made(32)}"}}',
        f"curl -H 'X-Api-Key: {made(32)}' https://api.example",
        f"API_KEY={HEX}",
        f'api_key: "{HEX}",',
        f"-----BEGIN OPENSSH PRIVATE KEY-----\n{KEY[:300]}",  # cut off
        json.dumps({"private_key": PEM}),
        f"PuTTY-User-Key-File-3: ssh-rsa\nPrivate-Lines: 12\n{KEY}\nPrivate-MAC: 00",
        f"two: ghp_{made(36)} ghp_{made(36, seed=2)}",
    ],
)
def test_secrets_are_found_as_people_and_programs_write_them(text: str) -> None:
    clean, found = redact_text(text)
    assert found and "[redacted:" in clean
    for secret in (
        "Tr0ub4dor",
        "correct",
        "hunter2",
        "=abc",
        HEX,
        made(32),
        KEY[:40],
        KEY[65:100],
        made(36),
    ):
        assert secret not in clean
    assert redact_text(clean) == (clean, Counter())


@pytest.mark.parametrize(
    "text",
    [
        "I forgot my password. Is a password of eight letters enough?",
        "password: required",
        'def login(user: str, password: str = "") -> Token: ...',
        "password = os.environ['PASSWORD']",
        'password = "${DB_PASSWORD}"',
        '{"type": "object", "properties": {"password": {"type": "string"}}}',
        '<input type="password" name="password" placeholder="your password">',
        "postgresql://user:password@localhost/db",
        "postgresql://$USER:$PASSWORD@localhost/db",
        "https://example.com/a/very/long/path?page=2&sort=key#part",
        "git@github.com:ann/notes.git and http://[::1]:8765/ and 12:30:45",
        "commit 3f2a1b0c9d8e7f6a5b4c9f8a7b6c5d4e3f2a1b0c (HEAD -> main)",
        "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855  file.txt",
        '"model.json": "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",',
        "conversation 123e4567-e89b-12d3-a456-426614174000, message 6ba7b810-9dad-11d1-80b4-00c04fd430c8",
        "data:image/png;base64," + base64.b64encode(bytes(range(256)) * 8).decode(),
        "sort(items, key=lambda item: item.created_at)  # the key of a passage",
        "tokens = tokenizer.encode(text); max_tokens=4096, token_count: 1234567890",
        "-----BEGIN CERTIFICATE-----\n" + KEY + "\n-----END CERTIFICATE-----",
        "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI" + made(43, LETTERS + "+/") + " ann@example",
        "API_KEY=your-api-key-here",
        "api_key = settings.api_key or None",
        "The secret of good coffee: fresh beans, and patience.",
        "Geheim ist das nicht: 密码是什么？ パスワードを忘れました。",
    ],
)
def test_what_is_no_secret_is_left_alone(text: str) -> None:
    assert redact_text(text) == (text, Counter())


def test_the_same_text_comes_back_where_there_is_nothing() -> None:
    text = "nothing here"
    assert redact_text(text)[0] is text
    value = {"a": [1, None, "x", {"b": "y"}]}
    assert redact_value(value, Counter()) is value


PIECES = st.one_of(
    st.text(max_size=20),
    st.sampled_from([around.format(secret) for around, secret in SECRETS.values()]),
    st.sampled_from([secret for _, secret in SECRETS.values()]),
    st.sampled_from(
        [
            '"',
            "'",
            "\n",
            "=",
            ": ",
            "\\",
            "password",
            "key=",
            "secret: ",
            "://a:",
            "@h",
            "[redacted:",
            "]",
            "[redacted:password]",
            "token",
            "-----BEGIN PRIVATE KEY-----",
            "Bearer ",
            "\ud800",
        ]
    ),
)


@given(st.lists(PIECES, max_size=12).map("".join))
def test_redacting_twice_changes_nothing_more(text: str) -> None:
    clean, found = redact_text(text)
    assert bool(found) == (clean != text)
    assert redact_text(clean) == (clean, Counter())


@given(st.lists(PIECES, max_size=8), st.data())
def test_a_text_in_parts_is_redacted_like_the_whole(pieces: list[str], data: st.DataObject) -> None:
    text = "".join(pieces)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=5)))
    parts = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    clean, found = redact_parts(parts)
    assert ("".join(clean), found) == redact_text(text)
    assert len(clean) == len(parts)


def test_a_value_is_a_secret_for_its_name() -> None:
    found: Counter[str] = Counter()
    value = redact_value(
        {"args": {"api_key": HEX, "password": "hunter2", "city": "Paris", "id": HEX}}, found
    )
    assert value["args"]["api_key"] == "[redacted:generic-api-key]"
    assert value["args"]["password"] == "[redacted:password]"
    assert (value["args"]["city"], value["args"]["id"]) == ("Paris", HEX)
    assert found == {"generic-api-key": 1, "password": 1}
    assert redact_value(value, Counter()) is value


def test_every_rule_is_in_the_language_of_the_engine() -> None:
    for rule in redact._rules()._rules:
        assert redact._compiled(rule._pattern)
        for allowed in rule._allowed:
            assert all(redact._compiled(pattern) for pattern in allowed._patterns)


# -- documents -------------------------------------------------------------------------


def test_a_conversation_has_no_secret_anywhere() -> None:
    secret = "ghp_" + made(36)
    said = Passage(
        "m1",
        "user",
        f"my token is {secret}",
        metadata={"raw": [secret]},
        attachments=({"text": secret},),
    )
    given_ = Document(
        "test", "c", f"my token is {secret}"[:30] + "…", passages=(said,), metadata={"note": secret}
    )
    clean, found = redact_document(given_)
    assert secret[:16] not in repr(clean) and found["github-pat"] == 4
    assert clean.title == "my token is [redacted:github-pat]"[: len(given_.title)]
    assert redact_document(clean) == (clean, Counter())


def test_a_document_without_secrets_is_the_same() -> None:
    given_ = with_text(Document("notes", "n", "A note", "note"), "plain words. " * 500)
    assert redact_document(given_)[0] is given_


def test_a_key_that_goes_through_chunks_of_a_note_is_taken_out_whole() -> None:
    long = "\n".join(made(64, LETTERS + "+/", n) for n in range(60))
    text = (
        f"Before.\n-----BEGIN PRIVATE KEY-----\n{long}\n-----END PRIVATE KEY-----\n\n"
        + "After it. " * 300
    )
    note = with_text(Document("notes", "n", "Keys", "note"), text)
    assert len(note.passages) > 2
    clean, found = redact_document(note)
    assert (text_of(clean.passages), found) == redact_text(text)
    assert [p.id for p in clean.passages] == [p.id for p in note.passages]
    at = 0
    for passage in clean.passages:
        assert (passage.metadata["start"], passage.metadata["end"]) == (
            at,
            at + len(passage.content),
        )
        at += len(passage.content)


def test_the_times_of_a_transcript_stay_with_its_words() -> None:
    cues = [Cue(0, 2, "The password: hunter2 is"), Cue(2, 4, "what I use"), Cue(4, 6, "everywhere")]
    media = with_cues(Document("media", "m", "A talk", "media"), cues)
    clean, found = redact_document(media)
    assert found == {"password": 1}
    assert list(cues_of(clean.passages)) == [
        cues[0]._replace(text="The password: [redacted:password] is"),
        *cues[1:],
    ]


def test_fields_are_texts_of_their_own() -> None:
    prompt = with_fields(
        Document("prompts", "p", "P", "prompt"),
        {
            "name": "Log in",
            "system_prompt": 'Use password = "correct-horse"',
            "user_prompt": "Hello",
        },
    )
    clean, found = redact_document(prompt)
    assert found == {"password": 1}
    assert [p.content for p in clean.passages] == [
        "Log in",
        'Use password = "[redacted:password]"',
        "Hello",
    ]
