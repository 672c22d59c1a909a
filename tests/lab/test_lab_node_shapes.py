"""What users write about simulated nodes."""

from __future__ import annotations

import pytest

from headway.lab import LabError, NodeGroup, node_groups


def test_one_shape_takes_all_nodes():
    assert node_groups(1000, ["8xA100,96cpu,768Gi"]) == [NodeGroup(1000, 8, "A100", 96, "768Gi")]


def test_shapes_without_a_count_share_the_rest_evenly():
    groups = node_groups(10, ["3:8xA100,96cpu,768Gi", "4xV100,32cpu,256Gi", "64cpu,512Gi"])
    assert [(group.count, group.accelerator) for group in groups] == [(3, "A100"), (4, "V100"), (3, "")]


def test_no_nodes_need_no_shape():
    assert node_groups(0) == []


@pytest.mark.parametrize(
    ("nodes", "shapes", "sentence"),
    [
        (-1, [], "0 to 20000 simulated nodes, not -1"),
        (5, ["8xA100,96cpu"], "does not say its memory"),
        (5, ["8xA100,768Gi"], "does not say its cpus"),
        (5, ["8xA100,96cpu,768Gi,banana"], "'banana' is neither"),
        (5, ["8xA100,4xV100,96cpu,768Gi"], "says its accelerators twice"),
        (5, ["0xA100,96cpu,768Gi"], "'0xA100' is neither"),
        (5, ["many:8xA100,96cpu,768Gi"], "write the number of nodes before the colon"),
        (5, ["6:8xA100,96cpu,768Gi"], "for 6 nodes in all and --nodes says 5"),
        (5, ["4:8xA100,96cpu,768Gi"], "for 4 nodes in all and --nodes says 5"),
    ],
)
def test_nonsense_is_told_in_one_sentence(nodes, shapes, sentence):
    with pytest.raises(LabError, match=sentence) as told:
        node_groups(nodes, shapes)
    assert "\n" not in str(told.value)
