"""Settings come from the environment, from recollect.toml, or from their defaults."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest

from recollect import settings
from recollect.cli import main
from recollect.configuration import config_file
from recollect.errors import InvalidInput
from recollect.settings import SETTINGS

PACKAGE = Path(settings.__file__).parent


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "config" / "recollect.toml"
    monkeypatch.setenv("RECOLLECT_CONFIG", str(path))
    path.parent.mkdir()
    return path


def test_an_unset_setting_has_its_default(file: Path) -> None:
    assert settings.PORT.get() == 8765
    assert settings.PORT.origin() == "default"


def test_the_file_sets_a_value(file: Path) -> None:
    file.write_text('port = 9000\nredact = true\nexclude = ["a", "b*"]\n')
    assert settings.PORT.get() == 9000
    assert settings.REDACT.get() is True
    assert settings.EXCLUDE.get() == ("a", "b*")
    assert settings.PORT.origin() == "recollect.toml"


def test_the_environment_takes_precedence_over_the_file(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file.write_text("port = 9000\n")
    monkeypatch.setenv("RECOLLECT_PORT", "9001")
    assert (settings.PORT.get(), settings.PORT.origin()) == (9001, "environment")


def test_a_changed_file_is_read_again(file: Path) -> None:
    file.write_text("port = 9000\n")
    assert settings.PORT.get() == 9000
    file.write_text("port = 10000\n")
    assert settings.PORT.get() == 10000


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("port = 'many'", "port in .*: 'many' is not a whole number"),
        ("observer = 'nobody'", "'nobody' is not one of rules, model, off"),
        ("prot = 1", "no setting 'prot'. Did you mean 'port'"),
        ("xyzzy = 1", "`recollect config` lists them all"),
        ("port = [1, 2]", "port must be text, a number, true, false or a list of texts"),
        ("port = 1.5", "port must be text"),
        ("port = ", "cannot be read"),
    ],
)
def test_an_invalid_file_is_an_error_that_names_it(file: Path, text: str, message: str) -> None:
    file.write_text(text + "\n")
    setting = settings.OBSERVER if text.startswith("observer") else settings.PORT
    with pytest.raises(InvalidInput, match=message) as error:
        setting.get()
    assert str(file) in str(error.value)


def test_config_sets_and_unsets_a_value_and_keeps_comments(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file.write_text("# mine\nuser = 'ann'\n")
    assert main(["config", "set", "embeddings", "off"]) == 0
    assert settings.EMBEDDINGS.get() == "off"
    assert file.read_text().startswith("# mine\nuser = 'ann'\n")
    assert main(["config", "unset", "embeddings"]) == 0
    assert settings.EMBEDDINGS.get() == "static"
    assert file.read_text() == "# mine\nuser = 'ann'\n"
    capsys.readouterr()
    assert main(["config", "path"]) == 0
    assert capsys.readouterr().out.strip() == str(config_file())


def test_config_rejects_invalid_values_and_unknown_settings(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["config", "set", "port", "many"]) == 1
    assert main(["config", "set", "nothing", "1"]) == 1
    assert not file.exists()
    errors = capsys.readouterr().err
    assert "'many' is not a whole number" in errors
    assert "There is no setting 'nothing'" in errors


def test_config_lists_every_setting_and_hides_secrets(
    file: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RECOLLECT_MODEL_KEY", "sk-very-secret")
    monkeypatch.setenv("RECOLLECT_HOME", "postgresql://ann:very-secret@host/db")
    assert main(["config", "--json"]) == 0
    output = capsys.readouterr().out
    assert "very-secret" not in output
    listing = json.loads(output)
    assert set(listing) == {setting.key for setting in SETTINGS}
    assert listing["model_key"]["from"] == "environment"
    assert listing["home"]["value"] == "postgresql://ann:********@host/db"
    assert main(["config"]) == 0
    assert "very-secret" not in capsys.readouterr().out


def test_a_setting_in_the_environment_is_mentioned_when_the_file_changes(
    file: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RECOLLECT_USER", "bob")
    assert main(["config", "set", "user", "ann"]) == 0
    assert "RECOLLECT_USER is set too, and takes precedence" in capsys.readouterr().out


def test_no_other_module_reads_settings_from_the_environment() -> None:
    """Only `recollect/configuration.py` does. Variables such as EDITOR are not settings."""
    getters = ("os.environ.get", "os.getenv", "environ.get")
    names = {setting.name for setting in SETTINGS}
    readers = []
    for path in PACKAGE.rglob("*.py"):
        if path.name == "configuration.py":
            continue
        text = path.read_text(encoding="utf-8")
        if not any(getter in text for getter in getters):
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Call) and ast.unparse(node.func) in getters:
                variable = ast.unparse(node.args[0]).strip("'\"")
                if variable in names or "RECOLLECT" in variable:
                    readers.append(f"{path.relative_to(PACKAGE)}:{node.lineno}")
    # The hook makes RECOLLECT_HOME absolute for the process it starts.
    allowed = ("capture/hooks.py",)
    assert [reader for reader in readers if not reader.startswith(allowed)] == []
