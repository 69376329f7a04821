"""The manifests for Kubernetes: what its API takes, and commands that aiocg has."""

import re
from pathlib import Path
from typing import Any

import pytest
import typer

from aiocg.cli.app import app
from aiocg.telemetry import metrics

yaml = pytest.importorskip("yaml")

MANIFEST = Path(__file__).resolve().parents[2] / "deploy" / "kubernetes" / "aiocg.yaml"
OBJECTS: list[dict[str, Any]] = list(yaml.safe_load_all(MANIFEST.read_text()))
BY_KIND = {one["kind"]: one for one in OBJECTS}
POD = BY_KIND["StatefulSet"]["spec"]["template"]["spec"]
(NODE,) = POD["containers"]
(KEYS,) = POD["initContainers"]


@pytest.mark.slow
@pytest.mark.parametrize("manifest", OBJECTS, ids=lambda one: str(one["kind"]))
def test_manifest_is_what_the_api_takes(manifest: dict[str, Any]) -> None:
    validator = pytest.importorskip("kubernetes_validate", reason="pip install kubernetes-validate")
    validator.validate(manifest, "1.31", strict=True)


def options_of(*command: str) -> tuple[Any, list[Any]]:
    """Return the command of `aiocg` with that name, and its parameters."""
    found: Any = typer.main.get_command(app)
    for name in command:
        found = found.commands[name]
    return found, found.params


def test_node_is_started_with_options_that_there_are() -> None:
    command, *words = NODE["args"]
    found, _ = options_of(command)
    with found.make_context("serve", list(words)) as context:
        assert context.params["bind"] == "tcp://0.0.0.0:5757" and context.params["metrics"] == "0.0.0.0:9464"


def test_commands_of_probe_and_keys_exist() -> None:
    lines = re.findall(
        r"aiocg ((?:[a-z]+ ){1,2})", f"{KEYS['args'][0]} {' '.join(NODE['readinessProbe']['exec']['command'])} "
    )
    assert len(lines) == 5
    for line in lines:
        options_of(*line.split()[:2])


def test_ports_and_volumes_are_those_that_are_used() -> None:
    rule, scraping = BY_KIND["NetworkPolicy"]["spec"]["ingress"]
    opened = [(one["port"], one.get("endPort", one["port"])) for one in rule["ports"]]
    assert opened == [(5757, 5757), (5800, 5899)] and "5800-5899" in NODE["args"]
    assert scraping["ports"] == [{"port": 9464}]
    volumes = {one["name"] for one in POD["volumes"]}
    assert {mount["name"] for one in (NODE, KEYS) for mount in one["volumeMounts"]} == volumes
    labels = BY_KIND["StatefulSet"]["spec"]["template"]["metadata"]["labels"]
    for selector in (
        BY_KIND["Service"]["spec"]["selector"],
        BY_KIND["StatefulSet"]["spec"]["selector"]["matchLabels"],
        BY_KIND["NetworkPolicy"]["spec"]["podSelector"]["matchLabels"],
    ):
        assert selector.items() <= labels.items()


def test_it_grows_by_a_metric_that_there_is() -> None:
    (external,) = [
        one["external"] for one in BY_KIND["HorizontalPodAutoscaler"]["spec"]["metrics"] if "external" in one
    ]
    assert external["metric"]["name"] in {
        one.name for one in vars(metrics).values() if isinstance(one, metrics._Family)
    }


def test_container_may_nothing_that_it_need_not() -> None:
    for one in (NODE, KEYS):
        assert one["securityContext"]["capabilities"] == {"drop": ["ALL"]}
        assert (
            one["securityContext"]["readOnlyRootFilesystem"] and not one["securityContext"]["allowPrivilegeEscalation"]
        )
    assert POD["securityContext"]["runAsNonRoot"] and not POD["automountServiceAccountToken"]
