"""Which pod sends: the API server decides, is asked seldom, and is not believed for pods that are not ours."""

from __future__ import annotations

import base64
import json

import pytest

from headway.kube.api.errors import Unreachable
from headway.kube.identity.tokens import REVIEWS_AT_ONCE, PodIdentity, claims_of, pod_of_review
from headway.progress_server import Greeting, KnownReplica

MINE, ANOTHERS = ("team/j", "worker", 0, 0), ("other/k", "ps", 1, 2)
EXTRA = "authentication.kubernetes.io/pod-uid"


def a_token(pod="uid-1", audience=("headway",), expires=2000.0, signature="good", **more) -> str:
    claims = {"aud": list(audience), "exp": expires, "kubernetes.io": {"pod": {"uid": pod}}, **more}
    payload = base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip("=")
    return f"e30.{payload}.{signature}"


def a_review(pod="uid-1", *, authenticated=True, audiences=("headway",), **user) -> bytes:
    found = {"username": "system:serviceaccount:team:default", "extra": {EXTRA: [pod]}, **user}
    return json.dumps(
        {"status": {"authenticated": authenticated, "audiences": list(audiences), "user": found}}
    ).encode()


class Api:
    """Believes the signature `good`. Answers at once, unless it is to wait."""

    def __init__(self) -> None:
        self.asked, self.waiting, self.waits, self.fails = [], [], False, False

    def ask(self, path, body, done) -> None:
        assert path == "/apis/authentication.k8s.io/v1/tokenreviews"
        assert body["spec"]["audiences"] == ["headway"]
        self.asked.append(body["spec"]["token"])
        self.waiting.append((body["spec"]["token"], done))
        if not self.waits:
            self.answer()

    def answer(self) -> None:
        for token, done in self.waiting:
            claims = claims_of(token)
            good = token.endswith(".good")
            done(Unreachable(0, "away") if self.fails else a_review(claims.pod, authenticated=good))
        self.waiting = []


@pytest.fixture
def api():
    return Api()


class Clocked(PodIdentity):
    """With a clock that a test can set."""


@pytest.fixture
def identity(api):
    now = [1000.0]
    found = Clocked({"uid-1": MINE, "uid-2": ANOTHERS}, api.ask, lambda: now[0])
    found.now = now
    return found


def greet(identity: PodIdentity, token: str, peer: str = "10.0.0.1") -> list:
    answers: list = []
    identity(Greeting(token, None, True, None, 0, "", True, peer), answers.append)
    return answers


def who(identity: PodIdentity, token: str, peer: str = "10.0.0.1"):
    (answer,) = greet(identity, token, peer)
    return answer.sender if isinstance(answer, KnownReplica) else answer


def test_the_pod_in_the_review_names_the_replica(identity, api):
    assert who(identity, a_token()) == MINE
    assert who(identity, a_token("uid-2")) == ANOTHERS
    assert len(api.asked) == 2


def test_the_review_counts_and_not_what_the_token_says(identity, api):
    """Nobody can sign such a token; if it happened, the API server would know."""
    api.answer = lambda: [done(a_review("uid-2")) for _, done in api.waiting]
    assert who(identity, a_token("uid-1")) == ANOTHERS


@pytest.mark.parametrize(
    "token",
    [
        "", "x", "a.b.c", "..", a_token(audience=("api",)), a_token(expires=999.0), a_token(expires="soon"),
        a_token(pod="uid-3"), a_token(pod=5), a_token(pod=""), "e30." + "!" * 50 + ".x",
        "e30." + base64.urlsafe_b64encode(b"[" * 9000).decode() + ".x",
        "e30." + base64.urlsafe_b64encode(b'{"aud":5,"exp":1e999}').decode() + ".x",
        "e30." + base64.urlsafe_b64encode(b'{"aud":["headway"],"exp":1,"kubernetes.io":{"pod":{}}}').decode() + ".x",
    ],
)  # fmt: skip
def test_what_cannot_be_a_token_of_ours_costs_the_api_server_nothing(identity, api, token):
    assert isinstance(who(identity, token), str)
    assert api.asked == []


def test_a_forged_token_is_refused_by_the_api_server_once(identity, api):
    forged = a_token(signature="forged")
    assert who(identity, forged) == who(identity, forged) == "the API server does not accept its token"
    assert len(api.asked) == 1
    identity.now[0] += 60
    who(identity, forged)
    assert len(api.asked) == 2, "a refusal is kept for a while only"


def test_an_answer_is_kept_until_the_token_expires(identity, api):
    token = a_token()
    assert [who(identity, token) for _ in range(50)] == [MINE] * 50
    assert len(api.asked) == 1
    identity.now[0] = 2000.0
    assert isinstance(who(identity, token), str), "it has expired"


def test_a_deleted_pod_is_refused_at_once_and_no_longer_holds(identity, api):
    (answer,) = greet(identity, a_token())
    assert answer.holds()
    del identity.roster["uid-1"]
    assert not answer.holds()
    assert "not of a job" in who(identity, a_token())
    assert len(api.asked) == 1
    identity.roster["uid-1"] = ("team/j", "worker", 1, 0)
    assert not answer.holds(), "its pod is another replica now"


def test_trackers_that_come_together_are_one_question(identity, api):
    api.waits = True
    answers = [greet(identity, a_token()) for _ in range(20)]
    assert answers == [[]] * 20
    api.answer()
    assert [answer.sender for (answer,) in answers] == [MINE] * 20
    assert len(api.asked) == 1


def test_an_api_server_that_is_away_is_asked_again(identity, api):
    api.fails = True
    assert "try again" in who(identity, a_token())
    api.fails = False
    assert who(identity, a_token()) == MINE


def test_many_forged_tokens_of_one_address_do_not_reach_the_api_server_and_keep_nobody_out(identity, api):
    for number in range(500):
        assert isinstance(who(identity, a_token(signature=f"forged-{number}"), "10.0.0.66"), str)
    assert len(api.asked) == REVIEWS_AT_ONCE
    assert who(identity, a_token()) == MINE, "the pod itself has another address"
    assert who(identity, a_token("uid-2"), "10.0.0.66") == ANOTHERS


def test_what_is_kept_is_bounded(identity, api, monkeypatch):
    from headway.kube.identity import tokens as module

    monkeypatch.setattr(module, "MOST_KEPT", 10)
    for number in range(40):
        who(identity, a_token(jti=str(number)), peer=str(number))
    assert len(identity._kept) == 10
    assert not identity._under_review


@pytest.mark.parametrize(
    "answer",
    [
        b"", b"{", b"[]", b'{"status": null}', b'{"status": {}}', b'{"status": {"authenticated": true}}',
        a_review(authenticated=False), a_review(audiences=("other",)), a_review(extra={}), a_review(extra={EXTRA: []}),
        a_review(extra={EXTRA: ["uid-1", "uid-2"]}), a_review(extra={EXTRA: [5]}), a_review(extra=None),
    ],
)  # fmt: skip
def test_a_review_that_names_no_pod_for_headway_names_none(answer):
    assert pod_of_review(answer) == ""
