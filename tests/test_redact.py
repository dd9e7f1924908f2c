"""Which text is a secret, and what replaces it."""

from __future__ import annotations

import base64
import json
import random
import string
from collections import Counter

import pytest
from contents import all_contents
from hypothesis import given
from hypothesis import strategies as st

from recollect import Document, Passage
from recollect.importers.items import (
    Cue,
    cues_of,
    text_of,
    with_cues,
    with_text,
)
from recollect.redact.redactor import (
    all_rules,
    compile_re2,
    redact_document,
    redact_parts,
    redact_text,
    redact_value,
)

LETTERS = string.ascii_letters + string.digits


def random_text(length: int, letters: str = LETTERS, seed: int = 1) -> str:
    """Random text that is the same for the same arguments, and is not a real key."""
    return "".join(random.Random(seed * 1_000 + length).choices(letters, k=length))


def jwt() -> str:
    header, claims = ({"alg": "HS256", "typ": "JWT"}, {"sub": "1234567890", "name": "Ann Example"})
    parts = [
        base64.urlsafe_b64encode(json.dumps(p).encode()).rstrip(b"=").decode()
        for p in (header, claims)
    ]
    return ".".join([*parts, random_text(43)])


KEY = "\n".join(random_text(64, LETTERS + "+/", n) for n in range(12))
PEM = f"-----BEGIN RSA PRIVATE KEY-----\n{KEY}\n-----END RSA PRIVATE KEY-----"
HEX = random_text(32, "0123456789abcdef")

SECRETS = {
    "aws-access-token": (
        "The id is {} they said.",
        "AKIA" + random_text(16, "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"),
    ),
    "github-pat": ("use {}, please", "ghp_" + random_text(36)),
    "github-fine-grained-pat": ("({})", "github_pat_" + random_text(82)),
    "gitlab-pat": ("git clone with {}.", "glpat-" + random_text(20)),
    "slack-bot-token": (
        "SLACK={}",
        f"xoxb-{random_text(12, '0123456789')}-{random_text(12, '0123456789')}-{random_text(24)}",
    ),
    "stripe-access-token": ("charge it with {}", "sk_live_" + random_text(24)),
    "anthropic-api-key": ("`{}`", f"sk-ant-api03-{random_text(93)}AA"),
    "openai-api-key": (
        "export OPENAI_API_KEY={}",
        f"sk-proj-{random_text(74)}T3BlbkFJ{random_text(74, seed=2)}",
    ),
    "api-key": ("<key>{}</key>", "sk-or-v1-" + random_text(64, "0123456789abcdef")),
    "huggingface-access-token": ("login({!r})", "hf_" + random_text(34, string.ascii_lowercase)),
    "npm-access-token": (
        "//npmjs.org/:_authToken={}",
        "npm_" + random_text(36, string.ascii_lowercase + "0123456789"),
    ),
    "sendgrid-api-token": (
        "mail: {}",
        "SG." + random_text(66, string.ascii_lowercase + "0123456789=_"),
    ),
    "jwt": ("It answers {}, which is wrong", jwt()),
    "private-key": ("Here it is:\n{}\nwhat now?", PEM),
    "generic-api-key": ('{{"client_secret": "{}"}}', random_text(40)),
    "password": ('password = "{}"', "correct-horse"),
    "password-in-url": (
        "postgresql://ann:{}@db.example:5432/notes",
        "s3cr3t/of@ann".replace("/", "%2F"),
    ),
    "authorization": ("Authorization: Bearer {}", random_text(40)),
    "azure-storage-key": (
        "AccountName=x;AccountKey={};EndpointSuffix=y",
        random_text(86, LETTERS + "+/") + "==",
    ),
}


@pytest.mark.parametrize("kind", SECRETS)
def test_a_secret_is_replaced_by_its_kind(kind: str) -> None:
    around, secret = SECRETS[kind]
    text, counts = redact_text(around.format(secret))
    assert secret not in text and sum(counts.values()) == 1
    (counted_kind,) = counts
    assert text.replace("'", "") == around.format(f"[redacted:{counted_kind}]").replace("'", "")
    assert counted_kind == kind
    assert redact_text(text) == (text, Counter())


@pytest.mark.parametrize("kind", SECRETS)
def test_colours_of_a_terminal_hide_no_secret(kind: str) -> None:
    around, secret = SECRETS[kind]
    around = around.replace("{!r}", "{}")
    half = len(secret) // 2
    whole = f"\x1b[1;32m{secret}\x1b[0m"
    changed = f"{secret[:half]}\x1b[7m{secret[half:]}\x1b[27m"  # as `git diff` marks a change
    for coloured in (whole, changed):
        text, counts = redact_text(f"\x1b[2mé\x1b[0m {around.format(coloured)} end")
        assert secret[:half] not in text and secret[half:] not in text
        assert counts
        assert text.startswith("\x1b[2mé\x1b[0m ") and text.endswith(" end")
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
        f'headers = {{"Authorization": "Bearer {random_text(32)}"}}',
        f"curl -H 'X-Api-Key: {random_text(32)}' https://api.example",
        f"API_KEY={HEX}",
        f'api_key: "{HEX}",',
        f"-----BEGIN OPENSSH PRIVATE KEY-----\n{KEY[:300]}",  # truncated
        json.dumps({"private_key": PEM}),
        f"PuTTY-User-Key-File-3: ssh-rsa\nPrivate-Lines: 12\n{KEY}\nPrivate-MAC: 00",
        f"two: ghp_{random_text(36)} ghp_{random_text(36, seed=2)}",
    ],
)
def test_secrets_are_found_in_the_ways_people_and_programs_write_them(text: str) -> None:
    clean, counts = redact_text(text)
    assert counts and "[redacted:" in clean
    for secret in (
        "Tr0ub4dor",
        "correct",
        "hunter2",
        "=abc",
        HEX,
        random_text(32),
        KEY[:40],
        KEY[65:100],
        random_text(36),
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
        "chat 123e4567-e89b-12d3-a456-426614174000, message 6ba7b810-9dad-11d1-80b4-00c04fd430c8",
        "data:image/png;base64," + base64.b64encode(bytes(range(256)) * 8).decode(),
        "sort(items, key=lambda item: item.created_at)  # the key of a passage",
        "tokens = tokenizer.encode(text); max_tokens=4096, token_count: 1234567890",
        "-----BEGIN CERTIFICATE-----\n" + KEY + "\n-----END CERTIFICATE-----",
        "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI" + random_text(43, LETTERS + "+/") + " ann@example",
        "API_KEY=your-api-key-here",
        "api_key = settings.api_key or None",
        "The secret of good coffee: fresh beans, and patience.",
        "Geheim ist das nicht: 密码是什么？ パスワードを忘れました。",
    ],
)
def test_text_that_is_no_secret_stays(text: str) -> None:
    assert redact_text(text) == (text, Counter())


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


@given(st.lists(PIECES, max_size=8), st.data())
def test_the_parts_of_a_text_are_redacted_like_the_whole_text(
    pieces: list[str], data: st.DataObject
) -> None:
    text = "".join(pieces)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=5)))
    parts = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    clean, counts = redact_parts(parts)
    assert ("".join(clean), counts) == redact_text(text)
    assert len(clean) == len(parts)


def test_a_value_can_be_a_secret_because_of_its_name() -> None:
    counts: Counter[str] = Counter()
    value = redact_value(
        {"args": {"api_key": HEX, "password": "hunter2", "city": "Paris", "id": HEX}}, counts
    )
    assert value["args"]["api_key"] == "[redacted:generic-api-key]"
    assert value["args"]["password"] == "[redacted:password]"
    assert (value["args"]["city"], value["args"]["id"]) == ("Paris", HEX)
    assert counts == {"generic-api-key": 1, "password": 1}
    assert redact_value(value, Counter()) is value


def test_every_rule_has_valid_re2_syntax() -> None:
    for rule, _ in all_rules():
        assert compile_re2(rule.regex)
        assert all(compile_re2(each) for allowed in rule.allowlists for each in allowed.regexes)


# -- documents -------------------------------------------------------------------------


def test_every_field_of_a_conversation_is_redacted() -> None:
    secret = "ghp_" + random_text(36)
    message = Passage(
        "m1",
        "user",
        f"my token is {secret}",
        metadata={"raw": [secret]},
        attachments=({"text": secret},),
    )
    document = Document(
        "test",
        "c",
        f"my token is {secret}"[:30] + "…",
        passages=(message,),
        metadata={"note": secret},
    )
    clean, counts = redact_document(document)
    assert secret[:16] not in all_contents(clean) and counts["github-pat"] == 4
    assert clean.title == "my token is [redacted:github-pat]"[: len(document.title)]
    assert redact_document(clean) == (clean, Counter())


def test_a_key_across_several_chunks_of_a_note_is_redacted() -> None:
    long = "\n".join(random_text(64, LETTERS + "+/", n) for n in range(60))
    text = (
        f"Before.\n-----BEGIN PRIVATE KEY-----\n{long}\n-----END PRIVATE KEY-----\n\n"
        + "After it. " * 300
    )
    note = with_text(Document("notes", "n", "Keys", "note"), text)
    assert len(note.passages) > 2
    clean, counts = redact_document(note)
    assert (text_of(clean.passages), counts) == redact_text(text)
    assert [p.id for p in clean.passages] == [p.id for p in note.passages]
    start = 0
    for passage in clean.passages:
        assert (passage.metadata["start"], passage.metadata["end"]) == (
            start,
            start + len(passage.content),
        )
        start += len(passage.content)


def test_the_cues_of_a_transcript_keep_their_times() -> None:
    cues = [Cue(0, 2, "The password: hunter2 is"), Cue(2, 4, "what I use"), Cue(4, 6, "everywhere")]
    media = with_cues(Document("media", "m", "A talk", "media"), cues)
    clean, counts = redact_document(media)
    assert counts == {"password": 1}
    assert list(cues_of(clean.passages)) == [
        cues[0]._replace(text="The password: [redacted:password] is"),
        *cues[1:],
    ]
