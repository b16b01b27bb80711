"""What `deploy/` holds for others' tools, read by them: Kubernetes' own schemas, and `docker compose`."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.parts.environments import interpreter
from tests.parts.wheels import ROOT

pytestmark = pytest.mark.long
KUBERNETES = sorted((ROOT / "deploy" / "kubernetes").rglob("*.yaml"))
VERSION = "1.37"
NOT_ITS_OWN = {"Kustomization", "Component", "ScaledObject"}
"""Kinds of kustomize and KEDA, which Kubernetes has no schema of."""


def validated(*files: Path) -> subprocess.CompletedProcess[str]:
    """Have kubernetes-validate read the files, which knows the schemas and allows no field that they lack."""
    python = interpreter(Path(__file__).with_name("manifests.lock"))
    return said(str(python), "-m", "kubernetes_validate", "--strict", "-k", VERSION, *map(str, files))


def test_each_manifest_is_one_by_the_schemas_of_kubernetes() -> None:
    read = validated(*KUBERNETES)
    said = read.stdout + read.stderr
    assert read.returncode == 0, said
    assert set(re.findall(r"schema for kind (\w+)", said)) == NOT_ITS_OWN
    assert len(re.findall(r" passed for resource ", said)) >= len(KUBERNETES)


def test_a_field_that_kubernetes_does_not_know_is_told(tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.yaml"
    manifest = (ROOT / "deploy" / "kubernetes" / "agent.yaml").read_text()
    wrong.write_text(manifest.replace("terminationGracePeriodSeconds", "terminationGraceSeconds"))
    read = validated(wrong)
    assert read.returncode != 0
    assert "terminationGraceSeconds" in read.stdout + read.stderr


def test_compose_reads_its_file() -> None:
    known = [words for words in (("docker", "compose"), ("docker-compose",)) if shutil.which(words[0])]
    able = [words for words in known if re.search(r" v?[2-9]\.", said(*words, "version").stdout)]
    if not able:
        pytest.skip("no Docker Compose of version 2 or later is on this machine")
    wanted = dict.fromkeys(("POSTGRES_PASSWORD", "TRIVET_HTTP__ADMIN_TOKEN", "TRIVET_SCRUB__PLACEHOLDER_KEY"), "x")
    read = said(*able[0], "-f", str(ROOT / "deploy" / "compose.yaml"), "config", "--quiet", **wanted)
    assert read.returncode == 0, read.stderr


def said(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a command, whatever comes of it."""
    environment["PATH"] = os.environ["PATH"]
    return subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
