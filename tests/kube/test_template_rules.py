"""What a job's template may set: fixed and allowed fields."""

from __future__ import annotations

import pytest

from headway.core.job import Job, JobId, Role
from headway.kube.intake.entitlement import check_own_template
from headway.kube.intake.spec import SpecError
from headway.kube.intake.template_rules import TemplateRules
from headway.kube.settings import PodDefaults

ROLE = Role(name="w", command=("python",), env=(("TOKEN", "x"),), tolerates=("team",))


def main(**fields) -> dict:
    return {"spec": {"containers": [{"name": "main", **fields}]}}


def refusal(own: dict, **rules) -> str:
    """What is said of the template; nothing where it is fine."""
    job = Job(id=JobId("team/j"), roles=(ROLE,), directory="/code")
    try:
        check_own_template(job, own, PodDefaults(rules=TemplateRules(**rules)))
    except SpecError as error:
        return str(error)
    return ""


@pytest.mark.parametrize(
    ("fixed", "own", "field"),
    [
        ("spec.containers.main.image", main(image="mine"), "spec.template.spec.containers.main.image"),
        ("spec.containers.*.image", main(image="mine"), "spec.template.spec.containers.main.image"),
        ("spec.containers", main(image="mine"), "spec.template.spec.containers.main.image"),
        ("spec.containers.main.image", {"spec": {"containers": None}}, "spec.template.spec.containers"),
        ("spec.containers.main.image", {"spec": 5}, "spec.template.spec"),
        ("spec.volumes", {"spec": {"volumes": []}}, "spec.template.spec.volumes"),
        ("spec.volumes.data", {"spec": {"volumes": [{"name": "data"}]}}, "spec.template.spec.volumes.data"),
        ("spec.containers.main.env.A", main(env=[{"name": "A", "value": "1"}]),
         "spec.template.spec.containers.main.env.A.value"),
        ("spec.containers.main.volumeMounts./data", main(volumeMounts=[{"mountPath": "/data", "readOnly": False}]),
         "spec.template.spec.containers.main.volumeMounts./data.readOnly"),
        ("metadata.labels.example.com/cost", {"metadata": {"labels": {"example.com/cost": "x"}}},
         "spec.template.metadata.labels.example.com/cost"),
        ("spec.containers.main.env.TOKEN", {}, "spec.roles.w.env.TOKEN"),
        ("spec.tolerations", {}, "spec.roles.w.tolerates"),
        ("spec.containers.main.command", {}, "spec.roles.w.command"),
        ("spec.containers.main.workingDir", {}, "spec.directory"),
    ],
)  # fmt: skip
def test_a_fixed_field_is_refused_by_its_name(fixed, own, field):
    assert refusal(own, fixed=(fixed,)) == f"{field}: is fixed by the administrator; leave it out"


@pytest.mark.parametrize(
    ("fixed", "own"),
    [
        ("spec.containers.main.image", main(args=["x"])),
        ("spec.containers.main.image", {"spec": {"containers": [{"name": "side", "image": "x"}]}}),
        ("spec.volumes.data", {"spec": {"volumes": [{"name": "mine", "emptyDir": {}}]}}),
        ("metadata.labels.example.com/cost", {"metadata": {"labels": {"example.com/team": "x"}}}),
        ("spec.containers.main.env.A", main(env=[{"name": "B", "value": "1"}])),
    ],
)
def test_other_fields_are_the_jobs_own(fixed, own):
    assert refusal(own, fixed=(fixed,)) == ""


def test_only_allowed_fields_may_be_set():
    allowed = ("spec.containers.main.image", "spec.nodeSelector")
    assert refusal(main(image="mine"), allowed=allowed) == ""
    assert refusal({"spec": {"nodeSelector": {"a.b/c": "d"}}}, allowed=allowed) == ""
    assert refusal({}, allowed=()) == "", "the job's own fields are not its template"
    assert refusal(main(image="mine"), allowed=()).endswith("may not be set; a job's template may set nothing")
    for own in ({"spec": {"hostNetwork": True}}, {"spec": {"containers": "x"}}, main(imagePullPolicy="Never")):
        assert "may not be set; a job's template may set spec.containers.main.image, spec.n" in refusal(
            own, allowed=allowed
        )


@pytest.mark.parametrize("field", [{"nodeName": "n1"}, {"schedulingGates": [{"name": "later"}]}])
def test_no_job_places_its_pods_itself(field):
    assert refusal({"spec": field}).endswith("Headway decides where and when pods start; leave it out")
