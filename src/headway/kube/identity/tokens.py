"""Which pod sends: a greeting's token is shown to the API server, and the pod that it names is looked up in the roster.

The token is that of the pod's service account, for the audience `headway` only. What it says is read here twice: before
the review, without belief, so that nonsense and tokens of pods that are not ours cost the API server nothing; and in
the answer of the API server, which alone decides. Answers are kept until the token expires; a pod that is deleted is
gone from the roster at once. Nothing is persisted.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from headway.kube.api.errors import ApiError
from headway.kube.pods.body import AUDIENCE
from headway.progress_server import Answer, Greeting, KnownReplica, RateLimit, Sender

log = logging.getLogger("headway.kube")
REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews"
POD_UID = "authentication.kubernetes.io/pod-uid"
MOST_KEPT = 20_000
MOST_UNDER_REVIEW = 512
REFUSED_SECONDS = 30.0
"""How long a refusal is kept."""
REVIEWS_AT_ONCE, REVIEWS_PER_SECOND = 8.0, 0.5
"""Of tokens of one pod from one address. A pod needs one for each renewal of its token."""

Ask = Callable[[str, dict[str, Any], Callable[[bytes | ApiError], None]], None]
"""Posts a body to a path of the API server; the answer comes later, in any thread."""


@dataclass(frozen=True, slots=True)
class TokenClaims:
    """What a token says of itself."""

    pod: str
    """The pod's uid."""
    expires: float
    """Unix time."""


@dataclass(slots=True)
class PodIdentity:
    """Give it to the progress server as `identify`."""

    roster: PodRoster
    ask: Ask
    clock: Callable[[], float] = time.time
    _kept: OrderedDict[bytes, tuple[str, float]] = field(default_factory=OrderedDict)
    """By the token's hash: the pod's uid, empty if it was refused, and until when that holds."""
    _under_review: dict[bytes, list[Answer]] = field(default_factory=dict)
    _rate: RateLimit = field(default_factory=lambda: RateLimit(REVIEWS_AT_ONCE, REVIEWS_PER_SECOND))
    _lock: threading.Lock = field(default_factory=threading.Lock)
    reviews: int = 0
    """How often the API server was asked."""

    def __call__(self, greeting: Greeting, answer: Answer) -> None:
        claims = claims_of(greeting.token)
        now = self.clock()
        if claims is None or claims.expires <= now:
            answer("it shows no valid token for the audience headway")
            return
        if claims.pod not in self.roster:
            answer("its pod is not of a job that Headway follows now")
            return
        key = hashlib.sha256(greeting.token.encode()).digest()
        with self._lock:
            pod, until = self._kept.get(key, ("", 0.0))
            asks = until <= now and key not in self._under_review
            refused = asks and (
                len(self._under_review) >= MOST_UNDER_REVIEW or not self._rate.allows((claims.pod, greeting.peer), now)
            )
            if until <= now and not refused:
                self._under_review.setdefault(key, []).append(answer)
        if until > now:
            answer(self._known(pod))
        elif refused:
            answer("too many tokens are shown; try again later")
        elif asks:
            self.reviews += 1
            body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview",
                    "spec": {"token": greeting.token, "audiences": [AUDIENCE]}}  # fmt: skip
            self.ask(REVIEWS, body, partial(self._reviewed, key, claims))

    def _reviewed(self, key: bytes, claims: TokenClaims, result: bytes | ApiError) -> None:
        """In the thread that asks the API server."""
        if isinstance(result, ApiError):
            log.warning("a token could not be reviewed: %s", result)
            verdict: KnownReplica | str = "the API server cannot be asked now; try again later"
        else:
            pod = pod_of_review(result)
            verdict = self._known(pod)
        with self._lock:
            answers = self._under_review.pop(key, [])
            if not isinstance(result, ApiError):
                self._kept[key] = (pod, claims.expires if pod else self.clock() + REFUSED_SECONDS)
                while len(self._kept) > MOST_KEPT:
                    self._kept.popitem(last=False)
        for answer in answers:
            answer(verdict)

    def _known(self, pod: str) -> KnownReplica | str:
        sender = self.roster.get(pod)
        if not pod:
            return "the API server does not accept its token"
        if sender is None:
            return "its pod is not of a job that Headway follows now"
        return KnownReplica(sender, lambda: self.roster.get(pod) == sender)


def claims_of(token: str) -> TokenClaims | None:
    """What the token says, which proves nothing; None if it cannot be the token of a pod for Headway."""
    try:
        payload = token.split(".")[1]
        read = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
        audiences, pod, expires = read["aud"], read["kubernetes.io"]["pod"]["uid"], read["exp"]
        if AUDIENCE not in ([audiences] if isinstance(audiences, str) else audiences) or not isinstance(pod, str):
            return None
        return TokenClaims(pod, float(expires))
    except (LookupError, TypeError, ValueError, RecursionError, OverflowError, binascii.Error):
        return None


def pod_of_review(answer: bytes) -> str:
    """The uid of the pod whose token it is; empty if the API server does not accept the token for Headway."""
    try:
        status = json.loads(answer)["status"]
        if not status.get("authenticated") or AUDIENCE not in status.get("audiences", ()):
            return ""
        pods = status["user"].get("extra", {}).get(POD_UID, ())
        return pods[0] if len(pods) == 1 and isinstance(pods[0], str) else ""
    except (LookupError, TypeError, ValueError, AttributeError):
        return ""


PodRoster = dict[str, Sender]
