"""A job becomes a TrainingJob and comes back unchanged; a bad spec is one sentence."""

from __future__ import annotations

import json
from dataclasses import replace

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.core.job import Can, Job, JobId, Role, Success, Target
from headway.core.restarts import Restarts
from headway.core.text import clean
from headway.jobspec import with_cpu
from headway.kube.api.objects import TrainingJob, timestamp
from headway.kube.intake.spec import SpecError, job_of, manifest_of, read_spec

names = st.sampled_from(["ps", "chief", "worker"])
amounts = st.dictionaries(st.sampled_from(["cpu", "memory", "gpu", "example.com/fpga"]), st.integers(0, 10**6))


words = st.characters(exclude_characters="\0=", exclude_categories=["Cs"])
"""What a program can be given, and a variable can be called."""


@st.composite
def roles(draw, name):
    least = draw(st.integers(0 if name != "chief" else 1, 3))
    replicas = least + draw(st.integers(0, 3))
    return Role(
        name=name, replicas=replicas, min=least, max=replicas + draw(st.integers(0, 3)),
        request=tuple(sorted(draw(amounts).items())), limit=draw(st.sampled_from([(), (("cpu", 10**6),)])),
        after=draw(st.sampled_from([(), ("chief",)])) if name != "chief" else (),
        command=tuple(draw(st.lists(st.text(words, max_size=5), max_size=3))),
        env=tuple(sorted(draw(st.dictionaries(st.text(words, min_size=1), st.text(words))).items())),
    )  # fmt: skip


@st.composite
def a_job(draw):
    chosen = sorted({"chief", *draw(st.lists(names, max_size=2))})
    saves = draw(st.sampled_from(["asked", "itself", "never"]))
    return Job(
        id=JobId("j"), roles=tuple(draw(roles(name)) for name in chosen), user=draw(st.text(max_size=3).map(clean)),
        priority=draw(st.integers(-5, 5)), submit=100.0, deadline=draw(st.sampled_from([None, 160.0])),
        target=draw(st.sampled_from([None, Target(value=0.5), Target(metric="accuracy", value=0.0, higher=True)])),
        steps=draw(st.sampled_from([None, 7])), seconds=draw(st.sampled_from([None, 2.5])),
        success=draw(st.sampled_from([Success(), Success(roles=("chief",), any_replica=True)])),
        restarts=draw(st.sampled_from([Restarts(), Restarts(losses=0, window=60.0), Restarts(refusals=3)])),
        can=Can(draw(st.integers(0, 31))), checkpoints=saves != "never", saves_itself=saves == "itself",
        save_every=draw(st.sampled_from([600.0, 90.0, 0.0])),
    )  # fmt: skip


def as_object(manifest: dict) -> TrainingJob:
    """As it comes back from an API server."""
    manifest["metadata"] |= {"uid": "u1", "creationTimestamp": timestamp(1100.0)[:19] + "Z"}
    return msgspec.json.decode(json.dumps(manifest), type=TrainingJob)


def test_texts_of_a_training_job_are_cleaned():
    job = Job(id=JobId("j"), roles=(Role(name="worker"),), user="t\x1b[2J", queue="q\n1", submit=100.0)
    found = as_object(manifest_of(job, "default", submitted_at=1100.0))
    taken = job_of(found, read_spec(found.spec), began=1000.0)
    assert (taken.user, taken.queue) == ("t\N{REPLACEMENT CHARACTER}[2J", "q 1")


@given(a_job())
def test_a_job_survives_the_way_through_the_api_server(job):
    found = as_object(manifest_of(job, "default", submitted_at=1100.0))
    counted = replace(job, roles=tuple(map(with_cpu, job.roles)))
    assert job_of(found, read_spec(found.spec), began=1000.0) == counted


@pytest.mark.parametrize(
    ("role", "cluster", "own", "counts"),
    [
        ({}, {}, {}, ((("cpu", 1000),), True)),
        ({"cpu": "2"}, {}, {}, ((("cpu", 2000),), False)),
        ({"gpu": 1}, {}, {}, ((("cpu", 1000), ("gpu", 1)), True)),
        ({"gpu": 1, "memory": "1Gi"}, {}, {}, ((("gpu", 1), ("memory", 1024)), False)),
        ({"gpu": 1}, {"limits": {"cpu": "2"}}, {}, ((("gpu", 1),), False)),
        ({}, {"limits": {"cpu": "2"}}, {}, ((), False)),
        ({}, {}, {"requests": {"memory": "1Gi"}}, ((), False)),
        ({}, {"limits": {}}, {}, ((("cpu", 1000),), True)),
    ],
)
def test_a_role_that_names_nothing_counts_as_one_core_unless_a_template_names_something(role, cluster, own, counts):
    def template(resources):
        return {"spec": {"containers": [{"name": "main", "image": "any", "resources": resources}]}}

    spec = {"roles": {"worker": role}, "template": template(own)}
    found = as_object({"metadata": {"name": "j", "namespace": "default"}, "spec": spec})
    (read,) = job_of(found, read_spec(found.spec), 0.0, template(cluster)).roles
    assert (read.request, read.unstated) == counts


def test_the_finer_submit_time_counts_only_inside_its_second():
    job = Job(id=JobId("j"), roles=(Role(name="w", request=(("cpu", 1),)),))
    for told, meant in ((1100.25, 100.25), (1090.0, 100.0), (1200.0, 100.0)):
        found = as_object(manifest_of(job, "team", submitted_at=told))
        read = job_of(found, read_spec(found.spec), began=1000.0)
        assert (read.id, read.submit) == ("team/j", meant)


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({}, "roles"),
        ({"roles": {}}, "spec.roles"),
        ({"roles": {"w": {"cpu": "lots"}}}, "spec.roles.w.cpu: cpu cannot be 'lots'"),
        ({"roles": {"w": {"replicas": 1, "min": 2}}}, "spec.roles.w.replicas"),
        ({"roles": {"w": {"after": ["v"]}}}, "'v'"),
        ({"roles": {"w": {"near": ["v"]}}}, "spec.roles.w.near: there is no role 'v'"),
        ({"roles": {"w": {"cpu": 2, "limit": {"cpu": 1}}}}, "spec.roles.w.limit.cpu"),
        ([], "spec"),
        ({"roles": {"w": {}}, "can": ["fly"]}, "'fly'"),
        ({"roles": {"w": {}}, "priority": 3 * 10**9}, "spec.priority: must be between"),
        ({"roles": {"w": {}}, "saves": "itself", "checkpoints": False}, "spec.saves: a job without checkpoints"),
        ({"roles": {"w": {}}, "steps": 0}, "spec.steps: must be at least 1"),
        ({"roles": {"w": {"replicas": 3 * 10**9}}}, "spec.roles.w.replicas: must be 1000000 or less"),
        ({"roles": {"w": {"colour": "red"}}}, "colour"),
        ({"roles": {"w": {}}, "target": {"metric": "loss"}}, "spec.target"),
        ({"roles": {"w": {}}, "target": {"atLeast": 1, "atMost": 2}}, "spec.target"),
    ],
)
def test_a_bad_spec_is_one_sentence_that_names_the_field(spec, words):
    found = as_object({"metadata": {"name": "j"}, "spec": spec})
    with pytest.raises(SpecError) as error:
        job_of(found, read_spec(found.spec), 0.0)
    assert words in str(error.value)
