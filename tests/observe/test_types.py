"""The types of observations: commits, configuration, corrections, and six languages."""

from __future__ import annotations

import pytest
from conversations import conversation, edit, exchange, message, tool_call

from recollect import Passage
from recollect.memory.observe import observe


def commit(text: str) -> tuple[Passage, Passage]:
    return tool_call("Bash", f'command: git commit -am "{text}"', f"[main 1234567] {text}")


@pytest.mark.parametrize(
    ("text", "path", "type_"),
    [
        ("chore: fix the order of imports", "shop/cart.py", "change"),
        ("chore(deps): bump ruff to 0.6.9", ".pre-commit-config.yaml", "config"),
        ("docs: fix a typo", "docs/errors.md", "change"),
        ("feat: carts can be shared", "shop/cart.py", "feature"),
        ("revert: the new cart", "shop/cart.py", "change"),
    ],
)
def test_a_conventional_commit_determines_the_type(text: str, path: str, type_: str) -> None:
    document = conversation(message("user", "go"), *edit(path, "a", "b"), *commit(text))
    assert observe(document)[0].type == type_


@pytest.mark.parametrize(
    ("request_", "path"),
    [
        ("Set the level of the error log to warning", "config/logging.yaml"),
        ("Move the port to 9000", ".env"),
        ("Add a rule for default exports", ".eslintrc.cjs"),
        ("Raise the deployment target", "Package.swift"),
    ],
)
def test_changes_of_configuration_files_are_configuration(request_: str, path: str) -> None:
    document = conversation(
        message("user", request_), *edit(path, "a", "b"), message("assistant", "The value is set.")
    )
    assert observe(document)[0].type == "config"


@pytest.mark.parametrize(
    ("words", "type_"),
    [
        ("No, use pnpm for the shop.", "decision"),
        ("Let's see: we will use jest for all tests.", "decision"),
        ("Scrap the JWTs, we use opaque ids with server-side sessions.", "decision"),
        ("We drop Tailwind and write plain CSS modules.", "decision"),
        ("Alright, Dagster replaces cron for the nightly run.", "decision"),
        ("zstd with level 1 it is.", "decision"),
        ("Never touch the production cluster with kubectl.", "preference"),
        ("I'd rather not have notebooks in the repository.", "preference"),
        ("Don't mock Stripe in the payment tests, ever.", "preference"),
        ("I never want unwrap() outside of tests.", "preference"),
        ("never touch production without asking me", "preference"),
        ("By the way, never touch production without asking me, ok?", "preference"),
        ("Let's go with FastAPI", "decision"),
        # German
        ("Wir haben uns für PostgreSQL entschieden.", "decision"),
        ("Dann nehmen wir ab jetzt SES für die Mails.", "decision"),
        ("Bitte nie wieder alte Migrationen anfassen.", "preference"),
        ("Ich mag keine Abkürzungen in Namen.", "preference"),
        # French
        ("On passe aux tuiles vectorielles.", "decision"),
        ("On abandonne Metabase et on génère tout avec Evidence.", "decision"),
        ("Je préfère Polars pour tout nouveau code.", "preference"),
        ("Ne mets jamais de texte en dur dans les composants.", "preference"),
        # Spanish
        ("Hemos decidido guardar las fechas en UTC.", "decision"),
        ("Nos quedamos con Literata para el lector.", "decision"),
        ("Prefiero que los secretos no pasen por el entorno.", "preference"),
        ("Nunca uses variables globales en los scripts.", "preference"),
        # Chinese
        ("我们决定用 PostgreSQL 存储订单。", "decision"),
        ("那就改成双缓冲吧", "decision"),
        ("以后提交信息都用英文写", "preference"),
        ("不要在代码里写死端口号", "preference"),
        ("我们用 Redis 做队列吧", "decision"),
        ("咱们用 pnpm", "decision"),
        # Japanese
        ("キューは Redis を使おう", "decision"),
        ("Redis にしよう", "decision"),
        ("データベースは PostgreSQL に決めました。", "decision"),
        ("やっぱり RevenueCat はやめて、StoreKit 2 を使います。", "decision"),
        ("今後、強制アンラップは使わないでください。", "preference"),
        ("必ず guard で書いてほしいです。", "preference"),
    ],
)
def test_corrections_are_decisions_or_preferences(words: str, type_: str) -> None:
    talk = exchange(("user", words), ("assistant", "OK."))
    assert [each.type for each in observe(talk)] == [type_]
    work = conversation(message("user", words), *edit("a.py", "a", "b"), message("assistant", "OK"))
    assert type_ in [each.type for each in observe(work)]


@pytest.mark.parametrize(
    "words",
    [
        "I leaked the AWS key in the repo.",
        "Our token got exposed in the CI logs.",
        "Someone pushed our .env to the public repo.",
        "Der API-Schlüssel ist geleakt.",
        "La clé API a fuité.",
        "La contraseña fue filtrada.",
        "API 密钥泄露了",
        "APIキーが漏洩しました",
    ],
)
def test_a_leaked_key_is_security(words: str) -> None:
    talk = exchange(("user", words), ("assistant", "I will rotate it."))
    assert [each.type for each in observe(talk)] == ["security"]
    renewed = exchange(("user", "We pushed the token refresh to staging."), ("assistant", "OK."))
    assert "security" not in [each.type for each in observe(renewed)]


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        ("Any restarts?", "No restarts in the last 24 hours."),
        ("ls", "Here are the files: a.txt and b.txt."),
        ("git status", "Nothing to commit, the working tree is clean."),
        ("How are you doing today?", "I'm doing great, thanks for asking!"),
        ("good morning claude", "Good morning! What are we working on?"),
    ],
)
def test_small_talk_in_a_coding_folder_is_not_observed(words: str, answer: str) -> None:
    for calls in ((), tool_call("Bash", f"command: {words}", "ok")):
        document = conversation(message("user", words), *calls, message("assistant", answer))
        assert observe(document) == []


@pytest.mark.parametrize(
    "fact",
    [
        "First I tried ccache, which made no difference.",
        "The p95 of the search is now 121 ms.",
        "KeyError: 'berth'",
    ],
)
def test_numbers_failed_attempts_and_exceptions_are_facts(fact: str) -> None:
    document = conversation(
        message("user", "Make the harbour page faster, it takes too long."),
        *tool_call(
            "Bash", "command: python page.py", f"Traceback (most recent call last):\n{fact}"
        ),
        message("assistant", f"{fact} Then I made an index, and the page takes 3 s."),
    )
    (observation,) = observe(document)
    assert any(fact.rstrip(".") in each for each in (observation.title, *observation.facts))


@pytest.mark.parametrize(
    ("request_", "type_"),
    [
        ("Der Import stürzt ab, bitte beheben.", "bugfix"),
        ("Benenne Shop bitte in Store um.", "refactor"),
        ("Füge bitte einen Export als CSV hinzu.", "feature"),
        ("L'import plante, corrige-le.", "bugfix"),
        ("Renomme Shop en Store.", "refactor"),
        ("Ajoute un export au format CSV.", "feature"),
        ("La importación falla, arréglala.", "bugfix"),
        ("Cambia el nombre de Shop a Store.", "refactor"),
        ("Añade una exportación en CSV.", "feature"),
        ("导入时崩溃了，修复一下", "bugfix"),
        ("把 Shop 重命名为 Store", "refactor"),
        ("新增一个 CSV 导出功能", "feature"),
        ("インポートでエラーになります。修正してください。", "bugfix"),
        ("Shop の名前を Store に変更してください。", "refactor"),
        ("CSV の書き出しを追加してください。", "feature"),
    ],
)
def test_work_has_its_type_in_other_languages(request_: str, type_: str) -> None:
    document = conversation(
        message("user", request_), *edit("shop/cart.py", "a", "b"), message("assistant", "OK")
    )
    assert observe(document)[0].type == type_


@pytest.mark.parametrize(
    "answer",
    [
        "Das liegt daran, dass die Zeiten ohne Zeitzone gespeichert werden.",
        "Le ralentissement vient du fichier GeoJSON, qui pèse 14 Mo.",
        "Se debe a que el volcado entero se carga en memoria.",
        "延迟来自刷盘，因为冻结内存表时持有全局写锁。",
        "キーチェーンをメインスレッドで読んでいるのが原因です。",
    ],
)
def test_a_cause_is_the_first_fact_in_other_languages(answer: str) -> None:
    document = conversation(
        message("user", "PR-1177"),
        *tool_call("Read", "file_path: src/app.py", "1→x"),
        message("assistant", answer),
        *edit("src/app.py", "a", "b"),
        message("assistant", "OK, v2 with 35 ms, 12 files and 3 tests: QX-1, QX-2, QX-3."),
    )
    assert observe(document)[0].facts[0][:20] in answer
