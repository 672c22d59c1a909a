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
from rich.console import Console
from rich.table import Table

from headway.lab import Lab, LabError, LabStatus, ensure_debian_packages, node_groups

app = typer.Typer(
    name="lab",
    help="A real Kubernetes on this machine, with simulated and real nodes.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)

Name = Annotated[str, typer.Option("--name", "-n", help="Which lab; several can be up side by side.")]
PartName = Annotated[str, typer.Argument(help="A part as `headway lab status` names it, or node-N.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@contextmanager
def _one_sentence() -> Iterator[None]:
    """Turn what the user can mend into a sentence and exit code 2."""
    try:
        yield
    except LabError as error:
        typer.echo(f"headway lab: {error}", err=True)
        raise typer.Exit(2) from error


@app.command()
def up(
    name: Name = "default",
    kubelets: Annotated[int, typer.Option(help="Real nodes, with real containers (needs root).")] = 0,
    nodes: Annotated[int, typer.Option(help="Simulated nodes.")] = 0,
    shape: Annotated[
        list[str] | None, typer.Option(help="What they are like, repeatable: [COUNT:]8xA100,96cpu,768Gi.")
    ] = None,
    racks: Annotated[int, typer.Option(help="Over how many racks the simulated nodes are spread.")] = 1,
    kubelet_cpus: Annotated[
        float | None, typer.Option(help="Cores each real node offers; all of the machine's unless told.")
    ] = None,
    with_: Annotated[
        str, typer.Option("--with", help="Job operators: jobset, training-operator, kueue; comma between.")
    ] = "",
    life: Annotated[bool, typer.Option("--life", help="Pods end when their job's work is done.")] = False,
    times_faster: Annotated[float, typer.Option(help="With --life: by how much time is compressed.")] = 1.0,
    bench: Annotated[bool, typer.Option("--bench", help="Lift client and server limits.")] = False,
    gangs: Annotated[bool, typer.Option("--gangs", help="Kubernetes' own gang scheduling (PodGroup).")] = False,
    port: Annotated[int, typer.Option(help="The API server's port; a free one unless told.")] = 0,
) -> None:
    """Start a lab and print how to use it."""
    began = time.monotonic()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # whoever ends us gets the same tidying up as Ctrl-C
    with _one_sentence():
        lab = Lab.up(
            name,
            kubelets=kubelets,
            kubelet_cpus=kubelet_cpus,
            simulated=node_groups(nodes, shape or ()),
            racks=racks,
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
        raise LabError(f"time can be compressed by a factor above zero, not by {times_faster}")
    start = [sys.executable, "-c", "from headway.cli import main; main()"]
    return [*start, "lab", "live", "--name", name, "--times-faster", str(times_faster)]


@app.command()
def live(
    name: Name = "default",
    times_faster: Annotated[float, typer.Option(help="By how much time is compressed.")] = 1.0,
    neighbour_loss: Annotated[
        float, typer.Option(help="Share of speed lost to jobs that hold the rest of a node.")
    ] = 0.1,
) -> None:
    """Give pods on simulated nodes a life by the simulator's speed model; `up --life` starts this itself."""
    from headway.lab.life import Life
    from headway.sim.speed import Speed

    with _one_sentence():
        Life(Lab.attach(name), Speed(), times_faster=times_faster, neighbour_loss=neighbour_loss).run()


@app.command()
def status(name: Annotated[str | None, typer.Option("--name", "-n")] = None, json: Json = False) -> None:
    """Parts, versions, ports and memory of one lab, or of all."""
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


@app.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
def kubectl(
    arguments: Annotated[list[str], typer.Argument(help="What kubectl is to do; put `--` before it.")],
    name: Name = "default",
) -> None:
    """Run kubectl of the lab's version against the lab."""
    with _one_sentence():
        lab = Lab.attach(name)
        program = lab.kubectl
    environment = {**os.environ, "KUBECONFIG": str(lab.kubeconfig)}
    raise typer.Exit(subprocess.run([program, *arguments], env=environment, check=False).returncode)


@app.command()
def logs(
    part: PartName,
    name: Name = "default",
    lines: Annotated[int, typer.Option(help="How many of the last lines.")] = 200,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on as the log grows.")] = False,
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
    """End a part at once, as a crash would; node-N takes a real node with all its containers."""
    with _one_sentence():
        Lab.attach(name).kill(part)


@app.command()
def restart(part: PartName, name: Name = "default") -> None:
    """End a part in order, start it again and wait until it works."""
    with _one_sentence():
        Lab.attach(name).restart(part)


@app.command()
def down(
    name: Name = "default",
    every: Annotated[bool, typer.Option("--all", help="Every lab of this user.")] = False,
) -> None:
    """End all that a lab started, and only that."""
    with _one_sentence():
        for lab in Lab.all() if every else [Lab.attach(name)]:
            lab.down()
            print(f"lab '{lab.name}' is down")


@app.command()
def build(names: Annotated[list[str] | None, typer.Argument(help="Which; all unless told.")] = None) -> None:
    """Build the lab's programs now instead of at the first `up`."""
    from headway.lab.build import ensure
    from headway.lab.programs import PROGRAMS, find

    with _one_sentence():
        for name in names or ():
            if name not in PROGRAMS:
                raise LabError(f"there is no program '{name}' to build; there are {', '.join(PROGRAMS)}")
        ensure(names or PROGRAMS)
        for name, program in PROGRAMS.items():
            if names and name not in names:
                continue
            print(f"{name:26}{program.version:10}{find(name)}")


@app.command()
def deps() -> None:
    """Install the Debian packages that real nodes need."""
    with _one_sentence():
        ensure_debian_packages()
    print("all that real nodes need from the system is installed")
