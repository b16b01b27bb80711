"""What `deploy/` tells others of us is so: commands, variables, paths, ports, metrics, and names that must meet."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import httpx
import pytest
import typer
import yaml
from prometheus_client.parser import text_string_to_metric_families

from channels.__main__ import STOP_GRACE_S
from channels.core.webhooks import Webhooks
from gateway.bus.bus import RedisBus
from gateway.config import Settings, load_settings, own_hosts
from gateway.config.catalog import variables
from gateway.config.derived import PROVIDERS
from gateway.contracts.messages import Reply, ReplyKind
from gateway.contracts.ports import ModelFault, ModelTrouble
from gateway.limits import HAND_OVER_S, SHUTDOWN_GRACE_S
from gateway.ops.cli.start import app as command_line
from gateway.ops.supervisor.plan import for_admin, for_agent, for_channels
from gateway.store import Store
from gateway.telemetry.metrics import ANSWER_SECONDS, DELIVERY_SECONDS, MODEL_OUTCOMES, QUEUE_SECONDS, TURNS, Tally
from tests.parts.operator_api import ADA, CHAT, CLOCK, SCRUBBER, app_of, client_of, converse, message

DEPLOY: Final = Path(__file__).parents[2] / "deploy"
KUBERNETES: Final = DEPLOY / "kubernetes"
UNITS: Final = sorted((DEPLOY / "systemd").glob("*.service"))
ROLES: Final = ("channels", "agent", "admin")
VARIABLE: Final = re.compile(r"TRIVET_[A-Z_]+")
LABELS_OF_A_SCRAPE: Final = {"job", "instance"}
FIXED_BY_COMPOSE: Final = {
    *("TRIVET_DATA_DIR", "TRIVET_HTTP__HOST", "TRIVET_HTTP__WEBHOOK_HOST"),  # by the image
    "TRIVET_ACCESS__OWNER_CODE",  # only `trivet up` makes one
    *("TRIVET_HTTP__PORT", "TRIVET_HTTP__WEBHOOK_PORT"),  # by the ports that are published
    "TRIVET_HTTP__ADMIN_ON_DEMAND",  # only `trivet up` starts it so
    "TRIVET_AGENT__PROCESSES",  # each container is one; `replicas` says how many
}
GRACE_S: Final = {"channels": STOP_GRACE_S, "agent": SHUTDOWN_GRACE_S + HAND_OVER_S, "admin": 3.0}

NOTICE: Final = Reply("o1", "t1", ADA, CHAT, SCRUBBER.scrub("Soon."), ReplyKind.NOTICE, created_at_ms=CLOCK.now_ms())

Manifest = Mapping[str, Any]


def manifests() -> Iterator[Manifest]:
    """Every object of the base and of the components, patches included."""
    for path in sorted(KUBERNETES.rglob("*.yaml")):
        for document in yaml.safe_load_all(path.read_text()):
            yield document
            for patch in document.get("patches", ()):
                yield yaml.safe_load(patch["patch"])


def whole(kind: str) -> dict[str, Manifest]:
    """The objects of a kind, by name, without patches of them."""
    found: dict[str, Manifest] = {}
    for manifest in manifests():
        if manifest["kind"] == kind:
            found.setdefault(manifest["metadata"]["name"], manifest)
    return found


def pods() -> dict[str, Manifest]:
    """What pods are made of, by the component that they are."""
    owners = [*whole("Deployment").values(), *whole("StatefulSet").values()]
    templates = [owner["spec"]["template"] for owner in owners]
    return {pod["metadata"]["labels"]["app.kubernetes.io/component"]: pod for pod in templates}


def containers(pod: Manifest) -> Sequence[Manifest]:
    return [*pod["spec"].get("initContainers", ()), *pod["spec"]["containers"]]


def ours(pod: Manifest) -> Manifest:
    return next(container for container in pod["spec"]["containers"] if container["image"] == "trivet")


def composition() -> Mapping[str, Manifest]:
    services: Mapping[str, Manifest] = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]
    return services


def given(role: str) -> Iterator[tuple[str, frozenset[str]]]:
    """The variables that a role is given, by compose and by Kubernetes."""
    yield "compose.yaml", frozenset(composition()[role]["environment"])
    container = ours(pods()[role])
    shared = whole("ConfigMap")["trivet"]["data"]
    yield "kubernetes", frozenset([*shared, *(entry["name"] for entry in container["env"])])


def expressions() -> Iterator[tuple[str, str]]:
    """Everything that is asked of Prometheus: where, and what."""
    rules = yaml.safe_load((DEPLOY / "prometheus" / "trivet.rules.yml").read_text())
    for rule in rules["groups"][0]["rules"]:
        yield rule["alert"], rule["expr"]
    for panel in json.loads((DEPLOY / "grafana" / "trivet.json").read_text())["panels"]:
        for target in panel["targets"]:
            yield panel["title"], target["expr"]
    for trigger in whole("ScaledObject")["trivet-agent"]["spec"]["triggers"]:
        yield trigger["name"], trigger["metadata"]["query"]


def labels_asked(expression: str) -> set[str]:
    grouped = [name for names in re.findall(r"by \(([^)]*)\)", expression) for name in re.split(r",\s*", names)]
    return {*grouped, *re.findall(r'(\w+)=~?"', expression)}


async def test_every_metric_and_label_that_is_asked_for_is_told(sqlite_store: Store, bus: RedisBus) -> None:
    """Of an installation in which a message waits, a reply too, a channel is connected and a model was paid."""
    await bus.intake.enqueue(message(ADA, 1, "waiting"))
    await bus.deliveries.publish([NOTICE])
    await bus.operator.report_channel("telegram", "connected", ttl_s=30)
    await converse(sqlite_store, ADA, 1)
    tally = Tally()
    tally.add(TURNS, "done")
    tally.add(MODEL_OUTCOMES, "openai/x", "key")
    for duration in (ANSWER_SECONDS, QUEUE_SECONDS, DELIVERY_SECONDS):
        tally.time(duration, 100)
    await bus.operator.add_counts(tally.take())
    await bus.operator.report_models({"openai/x": ModelTrouble("openai/x", "openai", ModelFault.KEY, 1)})
    async with client_of(app_of(sqlite_store, bus)) as client:
        text = (await client.get("/metrics")).text
    labels: dict[str, set[str]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            labels.setdefault(sample.name, set()).update(sample.labels)
    for where, expression in expressions():
        asked = re.findall(r"\btrivet_\w+", expression)
        assert set(asked) <= labels.keys(), where
        told = set().union(LABELS_OF_A_SCRAPE, *(labels[name] for name in asked))
        assert labels_asked(expression) <= told, where
        assert "sum(trivet_" not in expression, f"{where}: each admin process tells the same"


def test_prometheus_and_others_beside_us_may_ask_by_the_names_that_they_use() -> None:
    settings = load_settings(None, {"TRIVET_HTTP__HOSTS": whole("ConfigMap")["trivet"]["data"]["TRIVET_HTTP__HOSTS"]})
    (target,) = re.findall(r"on Kubernetes: (\S+):8420", (DEPLOY / "prometheus" / "prometheus.yml").read_text())
    assert {target, *whole("Service")} & own_hosts(settings.settings) >= {target, "trivet-admin", "trivet-webhooks"}
    for role in ("admin", "channels"):
        told = composition()[role]["environment"]["TRIVET_HTTP__HOSTS"]
        assert {"admin", "channels"} == set(json.loads(told.removeprefix("${TRIVET_HTTP__HOSTS:-").removesuffix("}")))


def test_every_panel_asks_something_and_overlaps_none() -> None:
    panels = json.loads((DEPLOY / "grafana" / "trivet.json").read_text())["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    taken: set[tuple[int, int]] = set()
    for panel in panels:
        x, y, width, height = (panel["gridPos"][name] for name in "xywh")
        cells = {(column, row) for column in range(x, x + width) for row in range(y, y + height)}
        assert x + width <= 24, panel["title"]
        assert not cells & taken, panel["title"]
        taken |= cells


async def test_every_probe_asks_a_route_that_needs_no_token_on_a_port_that_its_role_listens_on(
    sqlite_store: Store, bus: RedisBus
) -> None:
    probed: dict[str, set[tuple[str, str]]] = {}
    ports: dict[str, dict[str, int]] = {}
    for manifest in manifests():
        if manifest["kind"] == "Deployment":
            for container in manifest["spec"]["template"]["spec"]["containers"]:
                named = {port["name"]: port["containerPort"] for port in container.get("ports", ())}
                ports.setdefault(container["name"], {}).update(named)
                probes = [value["httpGet"] for name, value in container.items() if name.endswith("Probe")]
                probed.setdefault(container["name"], set()).update((probe["path"], probe["port"]) for probe in probes)
    settings = Settings()
    assert probed.pop("agent") == set()
    assert ports["admin"] == {"http": settings.http.port}
    assert ports["channels"] == {"webhooks": settings.http.webhook_port}
    async with client_of(app_of(sqlite_store, bus)) as client:
        client.headers.pop("Authorization")
        for path, port in probed.pop("admin"):
            assert port == "http"
            assert (await client.get(path)).status_code == 200
    async with Webhooks({}).served("127.0.0.1", 0) as listening, httpx.AsyncClient() as caller:
        for path, port in probed.pop("channels"):
            assert port == "webhooks"
            assert (await caller.get(f"http://127.0.0.1:{listening}{path}")).status_code == 200
    assert not probed


def commands() -> Iterator[tuple[str, Sequence[str]]]:
    """Every command line of ours, without its first word."""
    for name, service in composition().items():
        if "command" in service and service.get("image") == "trivet":
            yield f"compose.yaml {name}", service["command"]
    for component, pod in pods().items():
        for container in containers(pod):
            if container["image"] == "trivet":
                yield f"kubernetes {component}", container["args"]
    for unit in UNITS:
        for line in re.findall(r"^Exec\w+=(.*)$", unit.read_text(), re.MULTILINE):
            program, *arguments = shlex.split(line)
            assert program == "/opt/trivet/bin/trivet"
            yield unit.name, arguments


def test_every_command_is_one_of_ours() -> None:
    found = list(commands())
    assert {arguments[0] for _, arguments in found} == {"up", "migrate", *ROLES}
    program = typer.main.get_group(command_line)
    for where, (name, *arguments) in found:
        command = program.commands.get(name)
        assert command is not None, where
        command.make_context(name, list(arguments))


@pytest.mark.parametrize(
    "path",
    [*(DEPLOY / name for name in ("compose.yaml", "Dockerfile")), *UNITS, *sorted(KUBERNETES.rglob("*.yaml"))],
    ids=lambda path: str(path.relative_to(DEPLOY)),
)
def test_every_variable_is_a_setting(path: Path) -> None:
    used = {name for name in VARIABLE.findall(path.read_text()) if not name.endswith("_")}
    assert used <= variables().keys()


@pytest.mark.parametrize("role", ROLES)
def test_a_role_is_given_what_it_would_be_given_on_one_machine(role: str) -> None:
    """And so no secret of another's; and all roles know alike who may speak and how lanes behave."""
    shown = {"channels": for_channels, "agent": _for_agent, "admin": _for_admin}[role]
    for where, names in given(role):
        kept = shown(dict.fromkeys(names, "x"), {})
        assert {name for name in names if name not in kept and not name.endswith("__ENABLED")} == set(), where
        assert {"TRIVET_ACCESS__ADMINS", "TRIVET_ACCESS__DEFAULT", "TRIVET_QUEUE__MODE"} <= names, where


@pytest.mark.parametrize("role", ROLES)
def test_compose_passes_on_each_setting_that_a_role_may_know(role: str) -> None:
    """What stands in `deploy/.env` would be ignored without a word otherwise."""
    shown = {"channels": for_channels, "agent": _for_agent, "admin": _for_admin}[role]
    wanted = {name for name in variables() if name in shown({name: "x"}, {})} - FIXED_BY_COMPOSE
    if role == "agent":
        wanted |= {provider.variable for provider in PROVIDERS}
    assert wanted - composition()[role]["environment"].keys() == set()


def _for_agent(environ: Mapping[str, str], more: Mapping[str, str]) -> dict[str, str]:
    return for_agent(environ, more, channels=())


def _for_admin(environ: Mapping[str, str], more: Mapping[str, str]) -> dict[str, str]:
    return for_admin(environ, more, channels=())


def test_secrets_are_references_and_each_stays_with_its_roles() -> None:
    assert not whole("Secret")
    secret = {setting.variable for setting in variables().values() if setting.is_secret}
    assert not secret & whole("ConfigMap")["trivet"]["data"].keys()
    holders: dict[str, set[str]] = {}
    for component, pod in pods().items():
        for container in containers(pod):
            for entry in container.get("env", ()):
                assert "value" not in entry, entry["name"]
                holders.setdefault(entry["valueFrom"]["secretKeyRef"]["name"], set()).add(component)
            for source in container.get("envFrom", ()):
                if "secretRef" in source:
                    holders.setdefault(source["secretRef"]["name"], set()).add(component)
    assert holders == {
        "trivet-bus": {"channels", "agent", "admin", "valkey"},
        "trivet-database": {"agent", "admin"},
        "trivet-scrub": {"channels", "agent", "admin"},
        "trivet-vault": {"channels", "agent"},
        "trivet-channels": {"channels", "admin"},
        "trivet-models": {"agent"},
        "trivet-admin": {"admin"},
    }
    told = (KUBERNETES / "kustomization.yaml").read_text()
    made = set(re.findall(r"secret generic (\S+)", told))
    assert made == holders.keys() - {"trivet-vault"}  # the vault is off unless it is wanted


def test_what_all_roles_are_told_is_a_configuration() -> None:
    loaded = load_settings(None, whole("ConfigMap")["trivet"]["data"])
    assert loaded.warnings == ()
    assert loaded.settings.access.admins


def test_names_meet() -> None:
    """Selectors find pods, services their ports, volumes their claims, the autoscaler its deployment."""
    labelled = [pod["metadata"]["labels"] for pod in pods().values()]
    for owner in (*whole("Deployment").values(), *whole("StatefulSet").values()):
        labels = owner["spec"]["template"]["metadata"]["labels"]
        assert owner["spec"]["selector"]["matchLabels"] == owner["metadata"]["labels"] == labels
    for budget in whole("PodDisruptionBudget").values():
        assert budget["spec"]["selector"]["matchLabels"] in labelled
    for name, service in whole("Service").items():
        assert service["spec"]["selector"] in labelled, name
    for policy in whole("NetworkPolicy").values():
        for selector in _selectors(policy["spec"]):
            assert any(_chosen(selector, labels) for labels in labelled), policy["metadata"]["name"]
    claims = whole("PersistentVolumeClaim")
    for pod in pods().values():
        volumes = {volume["name"]: volume for volume in pod["spec"].get("volumes", ())}
        for container in containers(pod):
            mounted = {mount["name"] for mount in container["volumeMounts"]}
            assert mounted <= {*volumes, "data"}
        wanted = [volume["persistentVolumeClaim"] for volume in volumes.values() if "persistentVolumeClaim" in volume]
        assert all(claim["claimName"] in claims for claim in wanted)
    target = whole("ScaledObject")["trivet-agent"]["spec"]["scaleTargetRef"]["name"]
    assert "replicas" not in whole("Deployment")[target]["spec"], "two would set it"


def _selectors(spec: Any) -> Iterator[Manifest]:
    if isinstance(spec, dict):
        for name, value in spec.items():
            if name == "podSelector":
                yield value
            else:
                yield from _selectors(value)
    elif isinstance(spec, list):
        for value in spec:
            yield from _selectors(value)


def _chosen(selector: Manifest, labels: Mapping[str, str]) -> bool:
    by_value = all(labels.get(name) == value for name, value in selector.get("matchLabels", {}).items())
    return by_value and all(labels.get(rule["key"]) in rule["values"] for rule in selector.get("matchExpressions", ()))


def test_every_pod_is_confined_and_bounded() -> None:
    for component, pod in pods().items():
        spec = pod["spec"]
        assert spec["automountServiceAccountToken"] is False, component
        assert spec["enableServiceLinks"] is False, "variables of services would look like settings"
        assert spec["securityContext"]["runAsNonRoot"] is True
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        for container in containers(pod):
            context = container["securityContext"]
            assert context["readOnlyRootFilesystem"] is True, container["name"]
            assert context["allowPrivilegeEscalation"] is False, container["name"]
            assert context["capabilities"] == {"drop": ["ALL"]}, container["name"]
            assert container["resources"].keys() == {"requests", "limits"}, container["name"]


def test_the_image_and_its_pods_have_one_user() -> None:
    [uid] = re.findall(r"useradd --uid (\d+)", (DEPLOY / "Dockerfile").read_text())
    for role in ROLES:
        assert pods()[role]["spec"]["securityContext"]["runAsUser"] == int(uid)


@pytest.mark.parametrize("role", ROLES)
def test_whoever_ends_a_role_waits_until_it_has_ended(role: str) -> None:
    assert pods()[role]["spec"]["terminationGracePeriodSeconds"] > GRACE_S[role]
    [unit] = [unit for unit in UNITS if unit.stem.partition("@")[0] == f"trivet-{role}"]
    [stop_s] = re.findall(r"^TimeoutStopSec=(\d+)$", unit.read_text(), re.MULTILINE)
    assert int(stop_s) > GRACE_S[role]
    assert int(composition()[role]["stop_grace_period"].removesuffix("s")) > GRACE_S[role]


def test_valkey_loses_nothing() -> None:
    wanted = {("--appendonly", "yes"), ("--appendfsync", "always"), ("--maxmemory-policy", "noeviction")}
    [server] = pods()["valkey"]["spec"]["containers"]
    for arguments in (server["args"], composition()["valkey"]["command"]):
        assert wanted <= set(pairwise(arguments))


@pytest.mark.parametrize("role", ["agent", "admin"])
def test_who_works_with_files_of_conversations_and_who_erases_them_see_the_same(role: str) -> None:
    assert composition()[role]["volumes"] == ["workspaces:/var/lib/trivet/data"]
    [data] = [volume for volume in pods()[role]["spec"]["volumes"] if volume["name"] == "data"]
    assert data["persistentVolumeClaim"] == {"claimName": "trivet-data"}
