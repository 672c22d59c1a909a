"""The figures of a scheduler for Prometheus, by its official client library.

What happens is counted where it happens. What is there (jobs by state, writes that wait) is read when somebody scrapes.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from prometheus_client import CollectorRegistry, Counter, Histogram, Info, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, Metric
from prometheus_client.core import GaugeMetricFamily as Gauge

from headway import __version__
from headway.core.states import State
from headway.kube.gangs.gang import Gang
from headway.kube.telemetry.figures import MAX_QUEUES, OTHERS, Figures, Watcher
from headway.kube.writes.write import Rank, Write, WriteDone

CYCLE = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
REQUEST = (0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
WAIT = (1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3600.0, 4 * 3600.0, 24 * 3600.0)
RATIO = (0.05, 0.1, 0.2, 0.3, 0.5, 1.0, 2.0)
MIN_PREDICTED = 60.0
"""Jobs of which less is left when they are first predicted tell nothing."""


@dataclass(frozen=True, slots=True)
class Sources:
    """What is read at a scrape, from whatever thread that comes."""

    queued: Callable[[Rank], int] = lambda _: 0
    under_way: Callable[[], int] = lambda: 0
    """Writes that were sent and have no answer yet."""
    allowed: Callable[[], int] = lambda: 0
    """How many may be, as the server's answers allow."""
    watches: Callable[[], Iterable[tuple[str, float, int]]] = lambda: ()
    """Of each kind: the seconds since its watch last said anything, and its lists so far."""
    epoch: Callable[[], int] = lambda: 0
    leads: Callable[[], bool] = lambda: False
    guard: Callable[[], str] = lambda: ""
    """`on`, `shadow` or `off` of a trained policy; empty where there is none."""
    ages: Callable[[], dict[str, float]] = dict
    """Seconds since each thread last went on."""


@dataclass(eq=False)
class Metrics(Watcher):
    sources: Sources = field(default_factory=Sources)
    registry: CollectorRegistry = field(default_factory=CollectorRegistry)
    _figures: Figures = field(default_factory=Figures)
    _predicted: dict[str, tuple[float, float]] = field(default_factory=dict)
    """By uid of a gang: when its end was first predicted, and the end."""
    _queues: set[str] = field(default_factory=set)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        def counter(name: str, words: str, *labels: str) -> Counter:
            return Counter(f"headway_{name}", words, labels, registry=self.registry)

        def histogram(name: str, words: str, buckets: tuple[float, ...], *labels: str) -> Histogram:
            return Histogram(f"headway_{name}", words, labels, buckets=buckets, registry=self.registry)

        self._cycles = histogram("cycle_seconds", "From a snapshot to the plan's last effect.", CYCLE)
        self._requests = counter("api_requests_total", "Writes to the API server.", "kind", "code")
        self._seconds = histogram("api_request_seconds", "Answers to writes.", REQUEST, "kind")
        self._reads = counter("api_reads_total", "Lists, watches, and other questions.", "kind", "code")
        self._read_seconds = histogram("api_read_seconds", "Answers to them.", REQUEST, "kind")
        self._binds = histogram("bind_seconds", "From a decision to the last pod of a gang that runs.", WAIT)
        self._waits = histogram("gang_wait_seconds", "From submission to the first start.", WAIT, "queue")
        self._ended = counter("jobs_ended_total", "Jobs that are over.", "queue", "state")
        self._errors = histogram(
            "prediction_error_ratio", "|predicted - real| / real seconds, of finished jobs.", RATIO
        )
        self._faults = counter("faults_total", "Errors inside Headway; each froze one job for a while.")
        self._settings = counter("settings_total", "Changed settings files, taken over or refused.", "taken")
        for taken in ("true", "false"):
            self._settings.labels(taken)  # they are there from the start: the first change is an increase
        Info("headway", "This scheduler.", registry=self.registry).info({"version": __version__})
        ProcessCollector(namespace="headway", registry=self.registry)
        self.registry.register(self)

    # ── what happens ──

    def cycle(self, seconds: float) -> None:
        self._cycles.observe(seconds)

    def fault(self) -> None:
        self._faults.inc()

    def count(self, found: Figures) -> None:
        self._figures = found

    def settings(self, *, taken: bool) -> None:
        self._settings.labels(str(taken).lower()).inc()

    def answered(self, write: Write, done: WriteDone, seconds: float) -> None:
        kind = type(write.what).__name__.lower()
        self._requests.labels(kind, "200" if done.error is None else str(done.error.status)).inc()
        self._seconds.labels(kind).observe(seconds)

    def heard(self, kind: str, code: int, seconds: float) -> None:
        """The answer to a question; of a watch, its beginning."""
        self._reads.labels(kind, str(code)).inc()
        self._read_seconds.labels(kind).observe(seconds)

    def changed(self, old: Gang, new: Gang, now: float) -> None:
        """A gang is in another state."""
        if new.state is State.RUNNING and old.state is State.STARTING:
            self._binds.observe(max(0.0, now - old.wanted.since))
            if new.wanted.attempt == 0:
                self._waits.labels(self._queue(new)).observe(max(0.0, old.wanted.since - new.job.submit))
        if new.is_over and not new.wanted.suspended:
            self._ended.labels(self._queue(new), new.state.name.lower()).inc()
            self._judge(new, now)

    def _queue(self, gang: Gang) -> str:
        if gang.job.queue not in self._queues and len(self._queues) >= MAX_QUEUES:
            return OTHERS
        self._queues.add(gang.job.queue)
        return gang.job.queue

    def predicted(self, uid: str, now: float, end: float) -> None:
        """When a running job is thought to be done. Its first prediction is judged when it has ended."""
        if end - now >= MIN_PREDICTED:
            self._predicted.setdefault(uid, (now, end))

    def _judge(self, gang: Gang, now: float) -> None:
        found = self._predicted.pop(gang.uid, None)
        if found is not None and gang.state is State.FINISHED and now > found[0]:
            at, end = found
            self._errors.observe(abs(end - now) / (now - at))

    # ── what is there ──

    def text(self) -> bytes:
        with self._lock:
            return generate_latest(self.registry)

    def collect(self) -> Iterable[Metric]:
        found, sources = self._figures, self.sources
        yield _gauge("jobs", "Jobs by state.", ("queue", "state"), found.jobs.items())
        yield _gauge("pending_jobs", "Jobs that wait, by reason.", ("queue", "reason"), found.pending.items())
        yield _gauge("held", "Cores and GPUs that jobs hold.", ("queue", "resource"), found.held.items())
        yield _gauge("used_cores", "Cores that jobs really use.", ("queue",), _single(found.used.items()))
        yield _gauge("measured_cores", "Cores that these jobs hold.", ("queue",), _single(found.measured.items()))
        yield _gauge("longest_wait_seconds", "Of the jobs that wait.", ("queue",), _single(found.waited.items()))
        yield _gauge("capacity", "Cores and GPUs of ready nodes.", ("resource",), _single(found.capacity.items()))
        yield _gauge("frozen_jobs", "Jobs that Headway cannot judge.", (), [((), found.frozen)])
        waiting = [((rank.name.lower(),), sources.queued(rank)) for rank in Rank]
        yield _gauge("writes_queued", "Writes that wait, by rank.", ("rank",), waiting)
        yield _gauge("writes_under_way", "Writes that were sent and not answered.", (), [((), sources.under_way())])
        yield _gauge("writes_allowed", "Writes that may be sent at once.", (), [((), sources.allowed())])
        ages, lists = [], []
        for kind, age, listed in sources.watches():
            ages.append(((kind,), age))
            lists.append(((kind,), listed))
        yield _gauge("watch_age_seconds", "Since a watch last said anything.", ("kind",), ages)
        yield _counter("watch_lists", "Lists of each kind since the start.", ("kind",), lists)
        yield _gauge("epoch", "Of this scheduler's Lease.", (), [((), sources.epoch())])
        yield _gauge("leads", "Whether it leads.", (), [((), sources.leads())])
        yield _gauge("thread_age_seconds", "Since a thread went on.", ("thread",), _single(sources.ages().items()))
        guard = sources.guard()
        modes = [((mode,), mode == guard) for mode in ("on", "shadow", "off")] if guard else []
        yield _gauge("guard", "Whether a trained policy decides.", ("mode",), modes)


def _single(items: Iterable[tuple[str, float]]) -> list[tuple[tuple[str, ...], float]]:
    return [((name,), value) for name, value in items]


def _gauge(name: str, words: str, labels: tuple[str, ...], values: Iterable[tuple[tuple[str, ...], float]]) -> Metric:
    made = Gauge(f"headway_{name}", words, labels=labels)
    for names, value in values:
        made.add_metric(names, float(value))
    return made


def _counter(name: str, words: str, labels: tuple[str, ...], values: Iterable[tuple[tuple[str, ...], float]]) -> Metric:
    made = CounterMetricFamily(f"headway_{name}", words, labels=labels)
    for names, value in values:
        made.add_metric(names, float(value))
    return made
