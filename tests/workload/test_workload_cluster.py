"""Clusters from words and files."""

from __future__ import annotations

import pytest

from headway.core.errors import UserError
from headway.core.node import Node
from headway.workload.cluster import open_cluster, parse_cluster


def test_words():
    assert open_cluster("2x4") == [Node(name=f"n{i}", capacity=(("gpu", 4),)) for i in range(2)]
    assert open_cluster("1x8cpu,32Gi,2gpu") == [
        Node(name="n0", capacity=(("cpu", 8000), ("gpu", 2), ("memory", 32768)))
    ]


@pytest.mark.parametrize(
    "text", ["", "x4", "0x4", "4x", "4x-1", "4x0", "4x4gpu,", "2x4,-1Gi", "4xmany", "nofile.yaml", "99999999x1"]
)
def test_bad_words(text):
    with pytest.raises(UserError, match=f"--cluster {text}: "):
        open_cluster(text)
    with pytest.raises(UserError):
        parse_cluster(text)


def test_yaml_with_shapes_and_racks(tmp_path):
    path = tmp_path / "cluster.yaml"
    path.write_text(
        "nodes:\n- {name: a, count: 2, gpu: 8, accelerator: A100, domain: rack1}\n"
        "- {name: b, cpu: 4, labels: {disk: ssd}}\n"
    )
    assert open_cluster(str(path)) == [
        Node(name="a-0", capacity=(("gpu", 8),), accelerator="A100", domain="rack1"),
        Node(name="a-1", capacity=(("gpu", 8),), accelerator="A100", domain="rack1"),
        Node(name="b", capacity=(("cpu", 4000),), labels=(("disk", "ssd"),)),
    ]


def test_published_lists(tmp_path):
    spec = tmp_path / "n2g4.csv"
    spec.write_text("num_switch,num_node_p_switch,num_gpu_p_node,num_cpu_p_node,mem_p_node\n2,3,4,40,256\n")
    nodes = open_cluster(spec)
    assert [(node.name, node.domain) for node in nodes[2:4]] == [("n2", "switch0"), ("n3", "switch1")]
    assert nodes[0].capacity == (("cpu", 40000), ("gpu", 4), ("memory", 262144))
    spot = tmp_path / "spot.csv"
    spot.write_text("gpu_model,gpu_capacity_num,cpu_num,node_name\nA10,1,128,2\n")
    assert open_cluster(spot) == [Node(name="n2", capacity=(("cpu", 128000), ("gpu", 1)), accelerator="A10")]
    config = tmp_path / "vc_config.csv"
    config.write_text(",num\nvcX,2\n")
    assert len(open_cluster(config)) == 2
    openb = tmp_path / "openb.csv"
    openb.write_text("sn,cpu_milli,memory_mib,gpu,model\na,32000,1024,2,T4\n")
    assert open_cluster(openb)[0].capacity == (("cpu", 32000), ("gpu_milli", 2000), ("memory", 1024))


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("a.yaml", "nodes: [{count: 0, gpu: 1}]", "field count: must be at least 1"),
        ("a.yaml", "nodes: []", "the file has no node"),
        ("a.yaml", "nodes: [{name: a, gpu: 1}, {name: a, gpu: 1}]", "two nodes are called 'a'"),
        ("a.yaml", "nodes: [{name: a, gpus: 1}]", "unknown field 'gpus'"),
        ("a.csv", "a,b\n1,2\n", "this is not a list of nodes"),
        (
            "a.csv",
            "num_switch,num_node_p_switch,num_gpu_p_node,num_cpu_p_node,mem_p_node\n1,x,4,4,4\n",
            "line 2: field num_node",
        ),
    ],
)
def test_bad_files(tmp_path, name, content, sentence):
    path = tmp_path / name
    path.write_text(content)
    with pytest.raises(UserError) as told:
        open_cluster(path)
    assert sentence in str(told.value)
    assert str(path) in str(told.value)
