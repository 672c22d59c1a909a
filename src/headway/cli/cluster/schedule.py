"""`headway schedule`: the live scheduler and job operator on Kubernetes."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated
from urllib.parse import urlsplit

import typer

from headway.cli.cluster import restart_options as restarts
from headway.cli.cluster.earlier_log import earlier
from headway.cli.cluster.followed_settings import (
    FollowedPolicy,
    followed,
    safe_now,
    settings_of_file,
    tell_changes,
    written_out,
)
from headway.cli.cluster.foreseeing import Foreseeing
from headway.cli.cluster.log_lines import LogFormat, LogFormatOption, begin_log_lines, in_cycle
from headway.cli.cluster.set_up import set_up
from headway.cli.cluster.template_file import pod_defaults
from headway.cli.options import (
    AgentEnv,
    BeliefsFile,
    Context,
    Estimates,
    Json,
    Kubeconfig,
    Log,
    PolicyName,
    Queues,
    Set,
    access_for,
    need_extra,
)
from headway.cli.wiring import (
    beliefs_for,
    env_setting,
    for_live,
    guard_for,
    head_settings,
    keep_beliefs,
    keeping,
    make_policy,
    no_sharing,
    queue_rules,
    queue_setting,
    quotas_of,
)
from headway.core.errors import UserError
from headway.core.job import JobId
from headway.core.policy import Policy
from headway.core.restarts import RestartLimits
from headway.core.snapshot import Snapshot
from headway.cycle.explained import explanation
from headway.cycle.loop import ABOUT_THE_POLICY, Book, Decided, run
from headway.kube.settings import Measure
from headway.record.lines import Head
from headway.record.log import LogWriter, read
from headway.record.log_gate import LogGate
from headway.record.metrics import Tally
from headway.record.rotation import MIB, Rotation

if TYPE_CHECKING:
    from headway.beliefs.file import LearnedBeliefs
    from headway.kube.api.access import Access
    from headway.kube.api.discovery import ClusterFacts
    from headway.kube.cluster import KubeCluster
    from headway.kube.settings import KubeSettings
    from headway.kube.state import ClusterState
    from headway.kube.telemetry.serve import Telemetry
    from headway.kube.writes.worker import ApiWorker
    from headway.trained.guard import TrainedGuard


SYSTEM_NAMESPACE = "headway-system"


def schedule(
    policy: PolicyName = "headway",
    env: AgentEnv = "",
    settings: Set = [],  # noqa: B006  typer copies it
    settings_file: Annotated[
        Path | None,
        typer.Option("--settings", help="Follow the settings in this YAML file, name: value. --set wins over it."),
    ] = None,
    queues: Queues = None,
    estimates: Estimates = "progress",
    beliefs: BeliefsFile = None,
    kubeconfig: Kubeconfig = None,
    context: Context = "",
    namespace: Annotated[str, typer.Option(help="Schedule TrainingJobs of this namespace, or of `all`.")] = "all",
    log: Log = None,
    log_megabytes: Annotated[
        int, typer.Option(min=0, help="Put the log aside at this size and begin another; 4 old ones stay. 0: never.")
    ] = 32,
    progress_listen: Annotated[
        str, typer.Option(help="Listen for progress of jobs on HOST:PORT. Keep it the same over restarts.")
    ] = "0.0.0.0:7077",
    progress_address: Annotated[
        str, typer.Option(help="Tell pods to report to HOST:PORT. Default: this machine's address.")
    ] = "",
    progress_service: Annotated[
        str,
        typer.Option(help="Point this Service's EndpointSlice here while this scheduler leads. It has no selector."),
    ] = "",
    metrics_listen: Annotated[
        str, typer.Option(help="Serve /healthz, /readyz and /metrics on HOST:PORT. Default: nowhere.")
    ] = "",
    log_format: LogFormatOption = LogFormat.TEXT,
    system_namespace: Annotated[
        str, typer.Option(help="Keep Headway's own Secrets in this namespace. Default: headway-system.")
    ] = "",
    template: Annotated[
        Path | None,
        typer.Option(help="Start every replica from this pod template (YAML): image, volumes; and what jobs may set."),
    ] = None,
    checkpoints: Annotated[
        str,
        typer.Option(
            help="Keep checkpoints in this folder, where the template mounts a volume; each job sees its own."
        ),
    ] = "",
    save_seconds: Annotated[float, typer.Option(help="Wait this long for a job to save.")] = 60.0,
    start_seconds: Annotated[float, typer.Option(help="Wait this long for all pods of a gang to run.")] = 300.0,
    lost_node_seconds: restarts.LostNodeSeconds = 60.0,
    losses: restarts.Losses = RestartLimits().losses,
    loss_window: restarts.LossWindow = RestartLimits().window_seconds,
    refusals: restarts.Refusals = RestartLimits().refusals,
    max_restarts: restarts.MaxRestarts = RestartLimits().max,
    min_loss_window: restarts.MinWindow = RestartLimits().min_window,
    progress_seconds: Annotated[
        float, typer.Option(help="Write progress to a job's status at most once in this time.")
    ] = 60.0,
    measure: Annotated[
        Measure, typer.Option(help="Source of usage of cpu and memory: metrics, kubelet (needs more rights), off.")
    ] = Measure.METRICS,
    master_port: Annotated[int, typer.Option(min=1, max=65535, help="MASTER_PORT of training scripts.")] = 29500,
    show_demand: Annotated[
        int, typer.Option(min=0, help="Make pending pods of so many gangs that lack nodes, for autoscalers to see.")
    ] = 0,
    beside: Annotated[
        bool, typer.Option("--beside", help="Also give turns to gated pods, which the native scheduler binds.")
    ] = False,
    gate_namespaces: Annotated[
        str, typer.Option(help="With --install --beside: gate new pods of namespaces with these labels.")
    ] = "headway.dev/beside=true",
    gate_pods: Annotated[
        str, typer.Option(help="With --install --beside: of these, only pods with these labels. Default: all.")
    ] = "",
    release: Annotated[
        bool, typer.Option("--release", help="With --beside: remove the gate's policy, lift all gates, then end.")
    ] = False,
    standby: Annotated[
        bool, typer.Option("--standby", help="Wait while another scheduler leads, and take over when it ends.")
    ] = False,
    until_idle: Annotated[bool, typer.Option("--until-idle", help="End when all jobs are over.")] = False,
    install: Annotated[
        bool, typer.Option("--install", help="Apply the CRD and roles to the cluster, then end.")
    ] = False,
    print_manifests: Annotated[
        bool, typer.Option("--print-manifests", help="Print the CRD and roles, then end.")
    ] = False,
    json: Json = False,
) -> None:
    """Schedule TrainingJobs on Kubernetes.

    It may be killed and started again at any time: its state is in the cluster.
    """
    begin_log_lines(log_format)
    need_extra()
    inside = "" if namespace == "all" else namespace
    if print_manifests or install or release:
        what = "print" if print_manifests else "release" if release else "install"
        gate = (gate_namespaces, gate_pods, system_namespace or SYSTEM_NAMESPACE) if beside else None
        set_up(partial(access_for, kubeconfig, context), inside, gate, what, kubelets=measure is Measure.KUBELET)
        return
    from headway.kube.settings import ClaimSettings, KubeSettings, KubeTimeouts

    settings = [*settings_of_file(settings_file), *settings, *queue_setting(queues), *env_setting(env, policy)]
    chosen = _decider(policy, settings)
    known, settings = beliefs_for(estimates, beliefs), written_out(settings)
    guard, access = guard_for(policy, settings, log, known), access_for(kubeconfig, context)
    report_to = progress_address or f"{_own_address(access.url)}:{_port(progress_listen)}"
    pods = pod_defaults(template, checkpoints=checkpoints, progress=f"tls:{report_to}", master_port=master_port)
    facts = _look(access, inside)
    limits = restarts.restart_limits(losses, loss_window, refusals, max_restarts, min_loss_window)
    claims = ClaimSettings(queues=queue_rules(settings), users_since=facts.users_since, limits=limits)
    timeouts = KubeTimeouts(save=save_seconds, start=start_seconds, scale=start_seconds, lost_node=lost_node_seconds)
    system = system_namespace or (SYSTEM_NAMESPACE if facts.sees_all_pods else inside)
    with ExitStack() as undo:
        seen = _seen(metrics_listen, guard, undo)
        worker = _worker(access, inside, system, seen, undo, all_pods=facts.sees_all_pods, standby=standby)
        state, serials = _take_over(access, worker, system, inside, log, log or _nowhere(undo))
        how = KubeSettings(
            began=state.began, namespace=inside, beside=beside, serials=serials, progress_seconds=progress_seconds,
            until_idle=until_idle, pods=pods, measure=measure, demand_gangs=show_demand, timeouts=timeouts,
            claims=claims, quotas=quotas_of(chosen), explain=_explain(chosen, state.began),
        )  # fmt: skip
        cluster = _open(access, worker, progress_listen, system, how, seen, progress_service)
        later = undo.pop_all()
    logging.getLogger("headway").info("scheduling with policy %s; jobs report to %s", policy, how.pods.progress)
    head, tally = partial(_head, policy, estimates, known, state.began), Tally()
    writer = _writer(log, head(settings), tally if until_idle else None, log_megabytes)
    _obey(chosen, cluster, lambda found: writer.restate(head(found)), system, seen)
    with later:
        _serve(cluster, chosen, (policy, settings), _book(estimates, known, state, guard), writer, guard, state)
    if until_idle:
        _show(tally, log, as_json=json)


def _decider(name: str, settings: Sequence[str]) -> Policy:
    return for_live(name, followed(name, settings) or make_policy(name, settings))


def _head(policy: str, estimates: str, known: LearnedBeliefs, began: float, settings: list[str]) -> Head:
    return Head("kube", policy, estimates, head_settings(known, policy, settings), 0, began, "")


def _obey(
    policy: Policy, cluster: KubeCluster, restate: Callable[[list[str]], None], system: str, seen: Telemetry | None
) -> None:
    """Changed files of settings count for the policy, for new jobs and in the log; who administers is told. They are
    looked at once before the first decision: whoever stood by may have read them days ago.
    """

    def changed(found: list[str]) -> None:
        restate(found)
        cluster.obey(queue_rules(found))
        told("SettingsChanged", "changed files of settings were taken over", taken=True)

    def told(reason: str, message: str, *, taken: bool) -> None:
        cluster.tell_administrators(system, reason, message)
        if seen is not None:
            seen.metrics.settings(taken=taken)

    tell_changes(
        policy, changed, lambda why: told("SettingsRefused", f"{why}; the settings stay as they were", taken=False)
    )
    if isinstance(policy, FollowedPolicy):
        policy.look()


def _explain(policy: Policy, began: float) -> Callable[[Snapshot, int], list[tuple[str, str]]]:
    """What the policy says of a job. Times of day are in UTC, as in a status."""
    from headway.kube.views.foreseen import between

    return partial(explanation, policy, clock=lambda at: between((at, at, at), began) or "never")


def _writer(log: Path | None, head: Head, tally: Tally | None, megabytes: int) -> LogWriter:
    """With a tally, what is shown at the end is of the whole run: its log is never put aside."""
    writer = LogWriter(log, head, *([tally] if tally is not None and log is None else []), durable=True)
    writer.rotation = Rotation(megabytes * MIB) if megabytes and tally is None else None
    return writer


def _show(tally: Tally, log: Path | None, *, as_json: bool) -> None:
    """The result of the whole run, from its log if there is one."""
    from headway.cli.screen.show import show_result

    for line in read(log) if log is not None else ():
        tally(line)
    show_result(tally, as_json=as_json)


def _look(access: Access, namespace: str) -> ClusterFacts:
    """Asks the API server once, and says what follows from the answers."""
    from headway.kube.api.discovery import look_at

    facts, log = asyncio.run(look_at(access, namespace)), logging.getLogger("headway")
    if facts.users_since is None:
        log.warning("the cluster does not record who submits: the user of a job is its namespace")
    if not facts.sees_all_pods:
        log.warning("pods of other namespaces cannot be read: nodes count as if there were none")
    return facts


def _seen(listen: str, guard: TrainedGuard | None, undo: ExitStack) -> Telemetry | None:
    """Probes and figures are served from the start: to list a large cluster takes minutes."""
    from headway.kube.telemetry.serve import Telemetry

    if not listen:
        return None
    seen = Telemetry(listen, lambda: "" if guard is None else guard.standing.mode)
    undo.callback(seen.close)
    return seen


def _worker(
    access: Access, namespace: str, system: str, seen: Telemetry | None, undo: ExitStack, *, all_pods: bool,
    standby: bool,
) -> ApiWorker:  # fmt: skip
    """The thread that talks to the API server. It lists at once, and writes nothing before it leads."""
    from headway.kube.writes.fence import Fence
    from headway.kube.writes.lease import NAME, SchedulerLease
    from headway.kube.writes.worker import ApiWorker, Hears

    lease = SchedulerLease(system, Fence(), name=f"{NAME}-{namespace}" if namespace else NAME, waits=standby)
    hears = Hears() if seen is None else Hears(seen.metrics.answered, seen.metrics.heard)
    worker = ApiWorker(access, namespace, all_pods=all_pods, lease=lease, hears=hears)
    undo.callback(worker.close)
    if seen is not None:
        seen.follow(worker=worker)
    return worker


def _take_over(
    access: Access, worker: ApiWorker, system: str, namespace: str, log: Path | None, beside: Path
) -> tuple[ClusterState, dict[JobId, int]]:
    """Waits until this scheduler leads, and goes on with what the last leader knew. The numbers that jobs have in the
    log stay theirs.
    """
    from headway.kube.standby import stand_by
    from headway.kube.state import ClusterState

    state = ClusterState(system, beside, namespace)
    began, serials = earlier(log)  # meanwhile the lists are read
    stand_by(access, worker, state.instance)
    asyncio.run(state.read(access))
    state.began = state.began or began
    return state, serials


def _book(estimates: str, known: LearnedBeliefs, state: ClusterState, guard: TrainedGuard | None) -> Book:
    if guard is not None:
        guard.go_on()
    return keep_beliefs(estimates, known, state.log, same_clock=state.taken_over)


def _nowhere(undo: ExitStack) -> Path:
    """Files of a run without a log, until the process ends."""
    return Path(undo.enter_context(TemporaryDirectory(prefix="headway-"))) / "run.log"


def _open(
    access: Access,
    worker: ApiWorker,
    listen: str,
    system: str,
    how: KubeSettings,
    seen: Telemetry | None,
    service: str,
) -> KubeCluster:
    from headway.kube.cluster import KubeCluster
    from headway.kube.identity.certificates import PROGRESS_AUTHORITY, server_context
    from headway.kube.identity.secrets import POD_KEY
    from headway.kube.identity.tokens import PodIdentity, PodRoster
    from headway.kube.pods.marks import PodMarks
    from headway.kube.telemetry.figures import NOBODY
    from headway.kube.writes.service import ProgressService
    from headway.progress_server import ProgressServer, raise_descriptor_limit

    raise_descriptor_limit()
    authority = asyncio.run(PROGRESS_AUTHORITY.find(access, system))
    how = replace(how, pods=replace(how.pods, authority=authority.trusted.decode()))
    roster = PodRoster()
    identify, marks = PodIdentity(roster, worker.ask), PodMarks(asyncio.run(POD_KEY.find(access, system)))
    server = ProgressServer(f"tcp:{listen}", worker.wake, identify, server_context(authority))
    if service:
        worker.lead_here(ProgressService(system, service, _own_address(access.url), int(_port(server.address))))
    watcher = NOBODY if seen is None else seen.metrics
    cluster = KubeCluster(worker, server, replace(how, marks=marks), roster, watcher)
    if seen is not None:
        seen.follow(cluster=cluster)
    return cluster


def _serve(
    cluster: KubeCluster, policy: Policy, asked: tuple[str, list[str]], book: Book, writer: LogWriter,
    guard: TrainedGuard | None, state: ClusterState,
) -> None:  # fmt: skip
    """Runs until a signal. Each cycle is in the log on disk before its plan is carried out.

    `asked`: the policy's name and settings.
    """

    def observe(decided: Decided) -> None:
        in_cycle(decided.snapshot.cycle)
        writer.cycle(decided.snapshot, decided.plan, decided.refusals)
        cluster.show(decided.snapshot)
        cluster.keep(state)
        foreseeing.look(decided.snapshot)
        tell_sharing(decided.snapshot)
        if guard is not None:
            guard.observe(decided)
        if isinstance(policy, FollowedPolicy):
            policy.look()
        for job, sentence in decided.snapshot.notes:
            if job == ABOUT_THE_POLICY:
                warn("%s", sentence)

    name, settings = asked
    tell_sharing = _sharing(name)
    warn, foreseeing = logging.getLogger("headway").warning, Foreseeing(cluster, name, policy, settings)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: cluster.stop())
    try:
        gate = LogGate(cluster, writer, warn, waits=False)
        with keeping(book):
            run(gate if guard is None else guard.watched(gate), policy, book, observe, safe_now(policy, settings))
    finally:
        cluster.keep(state, now=True)
        cluster.close()
        if guard is not None:
            guard.close()
    if cluster.settings.until_idle and not cluster.board.unfinished:
        writer.end(cluster.now(), 0)
    writer.close()


def _sharing(policy: str) -> Callable[[Snapshot], None]:
    """Says once, when jobs run, that neither they nor those that wait can share cores."""
    over = policy != "migration"

    def look(snapshot: Snapshot) -> None:
        nonlocal over
        if over or not snapshot.placements:
            return
        rows = [*snapshot.placements, *snapshot.jobs.waiting().tolist()]
        for sentence in no_sharing(policy, [snapshot.jobs.job(row) for row in rows]):
            logging.getLogger("headway").warning("%s", sentence)
            over = True

    return look


def _port(listen: str) -> str:
    port = listen.rpartition(":")[2]
    if not port.isdecimal():
        raise UserError(f"--progress-listen {listen}: must be HOST:PORT")
    return port


def _own_address(url: str) -> str:
    """This machine's address on the route to the API server; in a pod, the pod's address."""
    if os.environ.get("POD_IP"):
        return os.environ["POD_IP"]
    host, port = urlsplit(url).hostname or "127.0.0.1", urlsplit(url).port or 443
    try:
        family, kind, protocol, _, target = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.connect(target)  # a datagram socket: nothing is sent
            return str(probe.getsockname()[0])
    except OSError:
        return socket.gethostname()
