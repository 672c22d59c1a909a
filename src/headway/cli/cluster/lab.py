"""`headway lab`: a real Kubernetes on this machine, from the command line."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import msgspec
import typer
import yaml
from rich.console import Console
from rich.table import Table

from headway.cli.options import Json
from headway.lab import RELEASE, Lab, LabError, LabStatus, ensure_debian_packages, node_groups

app = typer.Typer(
    name="lab",
    help="Run a real Kubernetes on this machine, with simulated and real nodes.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)

Name = Annotated[
    str,
    typer.Option("--name", "-n", envvar="HEADWAY_LAB", help="Name the lab; several can be up at the same time."),
]
PartName = Annotated[str, typer.Argument(help="A part as `headway lab status` names it, or node-N.")]


@contextmanager
def _one_sentence() -> Iterator[None]:
    """Turns a user's mistake into one sentence and exit code 2."""
    try:
        yield
    except LabError as error:
        typer.echo(f"headway lab: {error}", err=True)
        raise typer.Exit(2) from error


@app.command()
def up(
    name: Name = "default",
    kubelets: Annotated[int, typer.Option(help="Start this many real nodes, with real containers (needs root).")] = 0,
    nodes: Annotated[int, typer.Option(help="Start this many simulated nodes.")] = 0,
    shape: Annotated[
        list[str] | None,
        typer.Option(help="Give the simulated nodes this shape, repeatable: [COUNT:]8xA100,96cpu,768Gi."),
    ] = None,
    racks: Annotated[int, typer.Option(help="Spread the simulated nodes over this many racks.")] = 1,
    pods: Annotated[int, typer.Option(help="Let this many pods run on the simulated nodes from the start.")] = 0,
    kubernetes: Annotated[str, typer.Option(help="Run this release of Kubernetes: 1.36 or 1.37.")] = RELEASE,
    kubelet_cpus: Annotated[
        float | None, typer.Option(help="Offer this many cores on each real node; default: all cores of the machine.")
    ] = None,
    kubelet_cores: Annotated[
        int, typer.Option(help="Give each real node this many cores of its own; default: all share all cores.")
    ] = 0,
    proxy: Annotated[
        bool, typer.Option("--proxy", help="Run kube-proxy beside the real nodes, in one lab at a time.")
    ] = False,
    with_: Annotated[
        str,
        typer.Option("--with", help="Run these job operators, separated by commas: jobset, training-operator, kueue."),
    ] = "",
    life: Annotated[bool, typer.Option("--life", help="End pods when the work of their job is done.")] = False,
    times_faster: Annotated[float, typer.Option(help="With --life: let time pass this many times faster.")] = 1.0,
    bench: Annotated[bool, typer.Option("--bench", help="Lift client and server limits, for measurements.")] = False,
    gangs: Annotated[
        bool, typer.Option("--gangs", help="Enable the gang scheduling of Kubernetes itself (PodGroup).")
    ] = False,
    port: Annotated[int, typer.Option(help="Use this port for the API server; default: a free one.")] = 0,
) -> None:
    """Start a lab and print how to use it."""
    began = time.monotonic()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # clean up as after Ctrl-C
    with _one_sentence():
        lab = Lab.up(
            name,
            kubernetes=kubernetes,
            kubelets=kubelets,
            kubelet_cpus=kubelet_cpus,
            kubelet_cores=kubelet_cores,
            proxy=proxy,
            simulated=node_groups(nodes, shape or ()),
            racks=racks,
            pods=pods,
            life=_life_command(name, times_faster) if life else (),
            operators=[word.strip() for word in with_.split(",") if word.strip()],
            bench=bench,
            gangs=gangs,
            port=port,
        )
    flag = "" if name == "default" else f" --name {name}"
    print(f"lab '{name}' is up after {time.monotonic() - began:.1f} s at {lab.url}")
    print(f"  export KUBECONFIG={lab.kubeconfig}")
    print(f"  headway lab kubectl{flag} -- get nodes")
    print(f"  headway lab down{flag}")


def _life_command(name: str, times_faster: float) -> list[str]:
    if times_faster <= 0:
        raise LabError(f"--times-faster must be above 0, not {times_faster}")
    start = [sys.executable, "-c", "from headway.cli import main; main()"]
    return [*start, "lab", "live", "--name", name, "--times-faster", str(times_faster)]


@app.command()
def live(
    name: Name = "default",
    times_faster: Annotated[float, typer.Option(help="Let time pass this many times faster.")] = 1.0,
    neighbour_loss: Annotated[
        float, typer.Option(help="Slow a job by this share when others hold the rest of its node.")
    ] = 0.1,
) -> None:
    """End pods on simulated nodes by the speed model of the simulator; `up --life` starts this command."""
    from headway.lab.life import Life
    from headway.sim.speed import Speed

    with _one_sentence():
        Life(Lab.attach(name), Speed(), times_faster=times_faster, neighbour_loss=neighbour_loss).run()


@app.command()
def status(name: Annotated[str | None, typer.Option("--name", "-n")] = None, json: Json = False) -> None:
    """Show parts, versions, ports and memory of one lab, or of all."""
    with _one_sentence():
        labs = [Lab.attach(name)] if name else Lab.all()
        found = [lab.status() for lab in labs]
    if json:
        print(msgspec.json.format(msgspec.json.encode({"labs": found})).decode())
        return
    if not found:
        print("no lab is up; start one with `headway lab up`")
    for one in found:
        _print_status(one)


def _print_status(one: LabStatus) -> None:
    verdict = "healthy" if one.healthy else "[red]not healthy[/red]"
    table = Table(title=f"lab '{one.name}' at {one.url}, {verdict}, up {one.up_seconds:.0f} s", title_justify="left")
    for heading in ("part", "state", "pid", "version", "port", "memory MB"):
        table.add_column(heading, justify="left" if heading in {"part", "state", "version"} else "right")
    for part in one.parts:
        state = "running" if part.alive else "[red]ended[/red]"
        table.add_row(
            part.name,
            state,
            str(part.pid or ""),
            part.version,
            str(part.port or ""),
            f"{part.memory_bytes / 1e6:.0f}",
        )
    Console().print(table)


@app.command()
def load(archive: Annotated[Path, typer.Argument(help="An OCI layout in a tar file.")], name: Name = "default") -> None:
    """Give all real nodes of the lab an image."""
    with _one_sentence():
        Lab.attach(name).load_image(archive)


PASSED_ON = {"ignore_unknown_options": True, "allow_interspersed_args": False}


@app.command(context_settings=PASSED_ON)
def kubectl(
    arguments: Annotated[list[str], typer.Argument(help="Arguments of kubectl; put `--` before them.")],
    name: Name = "default",
) -> None:
    """Run kubectl of the lab's version against the lab."""
    _run_against(name, "kubectl", arguments)


@app.command(context_settings=PASSED_ON)
def helm(
    arguments: Annotated[list[str], typer.Argument(help="Arguments of helm; put `--` before them.")],
    name: Name = "default",
) -> None:
    """Run helm against the lab."""
    _run_against(name, "helm", arguments)


def _run_against(name: str, program: str, arguments: list[str]) -> None:
    with _one_sentence():
        lab = Lab.attach(name)
        path = lab.program(program)
    environment = {**os.environ, "KUBECONFIG": str(lab.kubeconfig)}
    raise typer.Exit(subprocess.run([path, *arguments], env=environment, check=False).returncode)


@app.command()
def kubeconfig(name: Name = "default") -> None:
    """Print the path of the kubeconfig: export KUBECONFIG=$(headway lab kubeconfig)."""
    with _one_sentence():
        print(Lab.attach(name).kubeconfig)


@app.command()
def template(
    name: Name = "default",
    path: Annotated[
        list[Path] | None, typer.Option(help="Let pods see this folder or file of the host, read-only. Repeatable.")
    ] = None,
    checkpoints: Annotated[str, typer.Option(help="Mount a folder for checkpoints here, the same on all nodes.")] = (
        "/checkpoints"
    ),
) -> None:
    """Print a pod template for `headway schedule --template`: pods run this machine's own Python."""
    with _one_sentence():
        for one in path or ():
            if not one.exists():
                raise LabError(f"--path {one}: does not exist")
        if not checkpoints.startswith("/"):
            raise LabError(f"--checkpoints {checkpoints}: must be an absolute path")
        lab = Lab.attach(name)
        pod = lab.pod_template([one.resolve() for one in path or ()], shared_at=checkpoints)
    print(yaml.safe_dump(pod, sort_keys=False), end="")


@app.command()
def logs(
    part: PartName,
    name: Name = "default",
    lines: Annotated[int, typer.Option(help="Print this many of the last lines.")] = 200,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Print new lines as the log grows.")] = False,
) -> None:
    """Print the log of a part."""
    with _one_sentence():
        path = Lab.attach(name).log(part)
        if not path.exists():
            raise LabError(f"{part} has not written a log yet")
    _print_log(path, lines, follow=follow)


def _print_log(path: Path, lines: int, *, follow: bool) -> None:
    with path.open(errors="replace") as log:
        for line in deque(log, maxlen=lines):
            sys.stdout.write(line)
        while follow and path.exists():
            sys.stdout.write(log.readline() or "")
            sys.stdout.flush()
            time.sleep(0.05)


@app.command()
def kill(part: PartName, name: Name = "default") -> None:
    """Kill a part at once, as a crash would; node-N is a real node with all its containers."""
    with _one_sentence():
        Lab.attach(name).kill(part)


@app.command()
def restart(part: PartName, name: Name = "default") -> None:
    """Stop a part in order, start it again and wait until it works."""
    with _one_sentence():
        Lab.attach(name).restart(part)


@app.command()
def down(
    name: Name = "default",
    every: Annotated[bool, typer.Option("--all", help="End every lab of this user.")] = False,
) -> None:
    """End everything that a lab started, and nothing else."""
    with _one_sentence():
        for lab in Lab.all() if every else [Lab.attach(name)]:
            lab.down()
            print(f"lab '{lab.name}' is down")


@app.command()
def build(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="PROGRAM", help="Build only these; default: all.")
    ] = None,
    kubernetes: Annotated[str, typer.Option(help="Build this release of Kubernetes: 1.36 or 1.37.")] = RELEASE,
) -> None:
    """Build the lab's programs now instead of at the first `up`."""
    from headway.lab.build import ensure
    from headway.lab.options import check_release
    from headway.lab.programs import PROGRAMS, at_release, find

    known = [name for name in PROGRAMS if "@" not in name]
    with _one_sentence():
        check_release(kubernetes)
        for name in names or ():
            if name not in known:
                raise LabError(f"there is no program '{name}' to build; choose from {', '.join(known)}")
        wanted = {at_release(name, kubernetes) for name in names or known}
        ensure(wanted)
        for name, program in PROGRAMS.items():
            if name in wanted:
                print(f"{program.name:26}{program.version:10}{find(name)}")


@app.command()
def deps() -> None:
    """Install the Debian packages that real nodes need."""
    with _one_sentence():
        ensure_debian_packages()
    print("all packages that real nodes need are installed")
