"""The objects of ops/kubernetes, read as Kubernetes reads them."""

from collections.abc import Iterator
from typing import Any

import yaml

from dev.processes import ROOT

FOLDER = ROOT / "ops" / "kubernetes"
EXAMPLE = FOLDER / "secrets.yaml.example"
OPERATORS = {"PodMonitor", "ScaledObject"}
Object = dict[str, Any]


def objects() -> list[Object]:
    """All of them, the example's secrets included."""
    pages = [*sorted(FOLDER.glob("*.yaml")), EXAMPLE]
    return [one for page in pages for one in yaml.safe_load_all(page.read_text())]


def named(kind: str, name: str) -> Object:
    """The only one of this kind and name."""
    [found] = [o for o in objects() if (o["kind"], o["metadata"]["name"]) == (kind, name)]
    return found


def templates() -> dict[str, Object]:
    """The pods that are made, by the name of what makes them."""
    return {
        o["metadata"]["name"]: o["spec"]["template"]
        for o in objects()
        if "template" in o.get("spec", {})
    }


def containers() -> dict[str, Object]:
    """The only container of each pod."""
    found = {}
    for name, template in templates().items():
        [found[name]] = template["spec"]["containers"]
    return found


def environment(container: Object) -> dict[str, str]:
    """What its process is told."""
    told: dict[str, str] = {}
    for source in container["envFrom"]:
        for kind, key, field in (
            ("ConfigMap", "configMapRef", "data"),
            ("Secret", "secretRef", "stringData"),
        ):
            if key in source:
                told |= named(kind, source[key]["name"])[field]
    return told


def commands() -> Iterator[list[str]]:
    """Every command and probe."""
    for container in containers().values():
        yield container["command"]
        for probe in probes(container):
            yield probe["exec"]["command"]


def probes(container: Object) -> list[Object]:
    """Those that it has."""
    return [container[name] for name in ("readinessProbe", "livenessProbe") if name in container]
