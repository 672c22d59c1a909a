"""The cluster's template file: a pod template, fixed and allowed fields; mistakes are one sentence."""

from __future__ import annotations

import pytest

from headway.cli.cluster.template_file import pod_defaults
from headway.core.errors import UserError

GOOD = """
metadata: {labels: {cost: training}}
spec:
  containers: [{name: main, image: base, volumeMounts: [{name: disk, mountPath: /ck}]}]
  volumes: [{name: disk, nfs: {server: s, path: /}}]
fixed: [spec.containers.main.securityContext, metadata.labels]
allowed: [spec.containers.main.image]
"""


def test_a_template_with_rules(tmp_path, capsys):
    file = tmp_path / "pods.yaml"
    file.write_text(GOOD)
    pods = pod_defaults(file, checkpoints="/ck/runs", progress="tcp:h:1")
    assert set(pods.template) == {"metadata", "spec"}
    assert pods.rules.fixed == ("spec.containers.main.securityContext", "metadata.labels", "spec.volumes.disk")
    assert pods.rules.allowed == ("spec.containers.main.image",)
    assert pods.volume is not None
    assert (pods.volume.name, pods.volume.mounted) == ("disk", "/ck")
    assert "the volume at /ck has the checkpoints: a pod sees only its job's folder" in capsys.readouterr().err
    pod_defaults(file, checkpoints="/ck", progress="")
    assert capsys.readouterr().err == ""


def test_without_a_file_jobs_may_set_anything(capsys):
    pods = pod_defaults(None, checkpoints="/ck", progress="")
    assert (pods.template, pods.volume, pods.rules.fixed, pods.rules.allowed) == ({}, None, (), None)
    assert "--checkpoints /ck: the template mounts no volume there" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("spec: 5", "field spec"),
        ("fixed: spec.volumes", "field fixed"),
        ("fixed: [image]", "field fixed"),
        ("allowed: [spec..x]", "field allowed"),
        ("allowed: [3]", "field allowed"),
        ("open: []", "field open: is unknown"),
        ("1: []", "field 1: is unknown"),
        ("spec: {containers: [{name: main, volumeMounts: [{name: gone, mountPath: /ck}]}]}", "not in volumes"),
        ("spec: {containers: [5]}", "field spec"),
        ("{", "YAML"),
    ],
)
def test_mistakes_name_the_file_and_the_field(tmp_path, text, said):
    file = tmp_path / "pods.yaml"
    file.write_text(text)
    with pytest.raises(UserError, match=said) as told:
        pod_defaults(file, checkpoints="/ck", progress="")
    assert "pods.yaml" in str(told.value)


def test_mistakes_in_options():
    with pytest.raises(UserError, match="--checkpoints ck: must be an absolute path"):
        pod_defaults(None, checkpoints="ck", progress="")
