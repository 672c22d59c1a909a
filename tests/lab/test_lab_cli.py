"""The command line of the lab, run as a user runs it."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
import yaml

from headway.lab.programs import PROGRAMS
from helm import needs_helm

MAIN = "from headway.cli import main; main()"


def headway(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", MAIN, "lab", *arguments]
    return subprocess.run(
        command, capture_output=True, text=True, check=False, env={**os.environ, **environment}, timeout=120
    )


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["status", "--name", "nowhere"], "there is no lab 'nowhere'"),
        (["down", "--name", "nowhere"], "there is no lab 'nowhere'"),
        (["kubectl", "--name", "nowhere", "get", "pods"], "there is no lab 'nowhere'"),
        (["up", "--name", "Nope"], "'Nope' cannot name a lab"),
        (["up", "--kubelets", "99"], "0 to 16 kubelets, not 99"),
        (["up", "--port", "80"], "between 1024 and 65535, not 80"),
        (["up", "--nodes", "3", "--racks", "0"], "at least one rack"),
        (["up", "--nodes", "3", "--shape", "banana"], "'banana' is neither"),
        (["up", "--pods", "3"], "pods that run from the start need simulated nodes"),
        (["up", "--nodes", "3", "--pods", "-1"], "0 to 100000 pods, not -1"),
        (["up", "--kubernetes", "1.35"], "there is no Kubernetes 1.35 for the lab; there are 1.36, 1.37"),
        (["up", "--proxy"], "kube-proxy serves pods on real nodes"),
        (["up", "--kubelets", "2", "--kubelet-cores", "99"], "2 kubelets with 99 cores each cannot be had"),
        (["build", "--kubernetes", "1.35", "kubectl"], "there is no Kubernetes 1.35 for the lab"),
        (["up", "--with", "volcano"], "there is no operator 'volcano'"),
        (["up", "--life", "--times-faster", "0"], "--times-faster must be above 0"),
        (["build", "banana"], "there is no program 'banana'"),
        (["kubeconfig", "--name", "nowhere"], "there is no lab 'nowhere'"),
        (["template", "--name", "nowhere"], "there is no lab 'nowhere'"),
        (["template", "--path", "no-such-folder"], "--path no-such-folder: does not exist"),
        (["template", "--checkpoints", "here"], "--checkpoints here: must be an absolute path"),
    ],
)
def test_mistakes_are_one_sentence_and_exit_code_2(tmp_path, arguments, sentence):
    done = headway(*arguments, XDG_STATE_HOME=str(tmp_path))
    assert done.returncode == 2, done
    assert sentence in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1, done.stderr
    assert not list(tmp_path.rglob("lab.json"))


def test_no_lab_is_told(tmp_path):
    done = headway("status", XDG_STATE_HOME=str(tmp_path))
    assert done.returncode == 0
    assert "no lab is up" in done.stdout
    assert json.loads(headway("status", "--json", XDG_STATE_HOME=str(tmp_path)).stdout) == {"labs": []}


@pytest.mark.lab
def test_a_lab_from_the_command_line(control_plane, tmp_path):
    """On the session's lab, found by its name."""
    name = control_plane.name
    told = json.loads(headway("status", "--name", name, "--json").stdout)["labs"][0]
    assert told["healthy"] is True
    assert [part["name"] for part in told["parts"]][:2] == ["etcd", "kube-apiserver"]
    assert all(part["memory_bytes"] > 10**7 for part in told["parts"])
    assert headway("kubeconfig", HEADWAY_LAB=name).stdout.strip() == str(control_plane.kubeconfig)
    pod = yaml.safe_load(headway("template", "--path", str(tmp_path), HEADWAY_LAB=name).stdout)["spec"]
    (main,), folders = pod["containers"], {one["name"]: one["hostPath"]["path"] for one in pod["volumes"]}
    mounts = {one["mountPath"]: (folders[one["name"]], one["readOnly"]) for one in main["volumeMounts"]}
    assert mounts["/checkpoints"] == (str(control_plane.shared), False)
    assert mounts[str(tmp_path)] == (str(tmp_path), True)
    assert "healthy" in headway("status", "--name", name).stdout
    listed = headway("kubectl", "--name", name, "--", "get", "namespaces", "-o", "name")
    assert "namespace/kube-system" in listed.stdout
    assert headway("kubectl", "--name", name, "--", "get", "nonsense").returncode == 1
    assert "kube-scheduler" in headway("logs", "kube-scheduler", "--name", name, "--lines", "1000").stdout
    wrong = headway("logs", "banana", "--name", name)
    assert (wrong.returncode, "has no part 'banana'" in wrong.stderr) == (2, True)
    assert headway("kill", "kube-scheduler", "--name", name).returncode == 0
    assert not control_plane.status().healthy
    assert headway("restart", "kube-scheduler", "--name", name).returncode == 0
    assert control_plane.status().healthy, "a lab object does not see what the command line did"


@pytest.mark.lab
@needs_helm
def test_a_chart_is_installed_by_helm_of_the_release_that_is_pinned(control_plane, tmp_path):
    (tmp_path / "templates").mkdir()
    (tmp_path / "Chart.yaml").write_text("apiVersion: v2\nname: tiny\nversion: 0.1.0\n")
    by = "'{{ .Capabilities.HelmVersion.Version }}'"
    note = f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: note}}\ndata: {{by: {by}}}\n"
    (tmp_path / "templates" / "note.yaml").write_text(note)
    helm = ["helm", "--name", control_plane.name, "--"]
    done = headway(*helm, "install", "tiny", str(tmp_path))
    assert done.returncode == 0, done.stderr
    made = control_plane.api.get("/api/v1/namespaces/default/configmaps/note")
    assert made["data"] == {"by": PROGRAMS["helm"].version}
    assert headway(*helm, "uninstall", "tiny").returncode == 0
