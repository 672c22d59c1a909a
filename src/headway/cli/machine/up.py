"""`headway up` and `headway down`: the queue of this machine, which goes on in the background."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from headway.cli.machine.how import HowToTrain, given, trains
from headway.cli.machine.jobs_watch import QueueFiles
from headway.cli.machine.queue import queue_home
from headway.cli.machine.queue_status import REFUSED, read_status
from headway.cli.machine.training import train
from headway.cli.screen.say import say
from headway.core.errors import UserError
from headway.local.added import RunCard, added_jobs, card_of
from headway.local.over import last_lines
from headway.local.state_folder import is_locked
from headway.record.logfile import private

START_SECONDS = 30.0
"""How long `up` waits for the queue to be there."""
UNIT = """[Unit]
Description=Headway: the queue of this machine

[Service]
{environment}ExecStart={command}
WorkingDirectory={home}
KillMode=mixed
TimeoutStopSec={stop}
Restart=on-failure
RestartSec=2

[Install]
WantedBy=default.target
"""
"""SIGTERM goes to Headway alone: it lets the jobs save. What is left after `stop` seconds is killed."""


@trains
def up(
    context: typer.Context,
    how: HowToTrain,
    foreground: Annotated[
        bool, typer.Option("--foreground", help="Stay in this terminal, as a service manager wants it.")
    ] = False,
    systemd: Annotated[
        bool, typer.Option("--systemd", help="Write a systemd user unit that starts the queue after a reboot.")
    ] = False,
) -> None:
    """Start the queue of this machine in the background, or go on with it. Jobs are added with `headway add`.

    It goes on after logout. Its files are in ~/.local/state/headway/queue (XDG_STATE_HOME).
    """
    folder, words = queue_home(), given(context, but=("foreground", "systemd"))
    if systemd:
        _write_unit(words, how.save_seconds)
        return
    if is_locked(folder):
        card = card_of(folder)
        say(f"the queue is up already (process {card.pid if card else '?'}); `headway jobs` shows it")
        if how.page:
            say(_page_of(card))
        return
    if foreground:
        train([], QueueFiles([], folder), replace(how, stays=True))
        return
    _start(folder, words)
    if how.page:
        say(_page_of(card_of(folder)))


def down(
    seconds: Annotated[float, typer.Option(min=0, help="Wait so long for all jobs to save and stop.")] = 120.0,
) -> None:
    """End the queue of this machine: every job that can save saves and stops. `headway up` goes on."""
    folder = queue_home()
    card = card_of(folder)
    if not is_locked(folder) or card is None:
        say("the queue is not up")
        return
    with suppress(ProcessLookupError):
        os.kill(card.pid, signal.SIGTERM)
    give_up = time.monotonic() + seconds
    while is_locked(folder):
        if time.monotonic() > give_up:
            raise UserError(f"the queue (process {card.pid}) still stops its jobs after {seconds:g} seconds")
        time.sleep(0.1)
    said = last_lines(folder / "queue.out", 1)
    say(said[0] if said and said[0].startswith("stopped") else "stopped; `headway up` goes on")


def _page_of(card: RunCard | None) -> str:
    there = card is not None and card.page
    return f"page: {there}" if there else "it has no page: `headway down`, then `headway up --page`"


def _start(folder: Path, words: list[str]) -> None:
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with open(folder / "queue.out", "wb", buffering=0, opener=private) as output:
            output.write(b" " * 4096)  # on a full disk the queue could not say why it does not start
            output.truncate(output.seek(0))
            child = subprocess.Popen(
                [sys.executable, "-m", "headway", "up", "--foreground", *words],
                stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True, cwd=Path.home(),
            )  # fmt: skip
    except OSError as error:
        raise UserError(f"{folder / 'queue.out'}: cannot be written: {error.strerror}") from error
    give_up = time.monotonic() + START_SECONDS
    while not (is_locked(folder) and (card := card_of(folder)) is not None and card.pid == child.pid):
        if child.poll() is not None or time.monotonic() > give_up:
            said = " ".join(last_lines(folder / "queue.out", 3)).removeprefix("headway: ")
            raise UserError(f"the queue did not start: {said or 'it said nothing'}")
        time.sleep(0.05)
    goes_on = len(added_jobs(folder, {})) or sum(not job.is_over for job in read_status(folder).jobs)
    jobs = f"; it goes on with {goes_on} job{'s' if goes_on > 1 else ''}" if goes_on else ""
    for job in read_status(folder).jobs:
        if job.state == REFUSED:
            say(f"{job.name} is refused: {job.note}", error=True)
    say(f"the queue is up (process {child.pid}, {folder}){jobs}")
    if not goes_on:
        say("headway add -- python train.py   adds a job; headway jobs   shows it")


def _write_unit(words: list[str], save_seconds: float) -> None:
    """Writes the unit, and says how to enable it. Nothing is started."""
    config = Path(os.environ.get("XDG_CONFIG_HOME") or Path("~/.config").expanduser())
    path = config / "systemd" / "user" / "headway.service"
    command = [sys.executable, "-m", "headway", "up", "--foreground", *words]
    state = os.environ.get("XDG_STATE_HOME")
    environment = f"Environment={_quoted(f'XDG_STATE_HOME={state}')}\n" if state else ""
    text = UNIT.format(
        environment=environment,
        command=" ".join(map(_quoted, command)),
        home=_escaped(str(Path.home())),
        stop=int(save_seconds) + 30,
    )
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    except OSError as error:
        raise UserError(f"{path}: cannot be written: {error.strerror}") from error
    say(f"written: {path}")
    say("systemctl --user enable --now headway   starts the queue now and at every login")
    say(f"loginctl enable-linger {os.environ.get('USER', '')}".rstrip() + "   starts it at boot, without a login")
    if shutil.which("systemctl") is None:
        say("this machine has no systemctl: nothing was enabled", error=True)


def _escaped(word: str) -> str:
    """Systemd replaces %x and $X."""
    return word.replace("%", "%%").replace("$", "$$")


def _quoted(word: str) -> str:
    escaped = _escaped(word).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"' if any(mark in word for mark in " \t\"'\\;") else escaped
