"""The training scripts' side of the progress protocol: a connection for each replica of each job that trains."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from headway.core.job import JobId
from headway.experiment.native.trainers import Connects, Effect, HangsUp, PodSeen, Reports, Saved


@dataclass(frozen=True, slots=True)
class Line:
    pod: PodSeen
    writer: asyncio.StreamWriter
    task: asyncio.Task[None]
    asked: set[int]
    """Requests to save that it was sent."""


class ScriptLines:
    """Speaks with a progress server at a `tcp` address. `sent` counts what the server makes an event of."""

    def __init__(self, address: str, name: Callable[[JobId], str]) -> None:
        """`name`: what the scheduler calls a job."""
        host, _, port = address.removeprefix("tcp:").rpartition(":")
        self._host, self._port, self._name = host, int(port), name
        self._open: dict[JobId, dict[str, Line]] = {}
        """Of each job, by the uid of a pod."""
        self._asked: list[tuple[JobId, int]] = []
        self.sent = 0
        self.heard = 0
        """Requests to save that have come."""

    async def perform(self, effects: Sequence[Effect]) -> None:
        for effect in effects:
            match effect:
                case Connects(pod=pod, steps=steps):
                    await self._connect(pod, steps)
                case Reports(job=job, step=step, loss=loss):
                    self._say(self._lines(job)[:1], {"step": step, "loss": loss})
                case Saved(job=job, request=request, step=step, seconds=seconds):
                    asked = [line for line in self._lines(job) if request in line.asked]
                    self._say(asked, {"saved": request, "step": step, "seconds": seconds})
                case HangsUp(pod=pod):
                    self._hang_up(pod)
        await self._drain(line.writer for job in list(self._open) for line in self._lines(job))

    def asked(self) -> list[tuple[JobId, int]]:
        taken, self._asked = self._asked, []
        return taken

    async def close(self) -> None:
        for job in list(self._open):
            for line in self._lines(job):
                self._hang_up(line.pod)
        await asyncio.sleep(0)

    async def _connect(self, pod: PodSeen, steps: int) -> None:
        reader, writer = await asyncio.open_connection(self._host, self._port)
        asked = set[int]()
        line = Line(pod, writer, asyncio.create_task(self._listen(pod.job, reader, asked)), asked)
        self._open.setdefault(pod.job, {})[pod.uid] = line
        hello = {"hello": 1, "job": self._name(pod.job), "role": pod.role, "index": pod.index, "attempt": pod.attempt}
        self._say([line], {**hello, "can_save": True, "total_steps": steps})

    def _lines(self, job: JobId) -> list[Line]:
        """The first replica comes first."""
        return sorted(self._open.get(job, {}).values(), key=lambda line: (line.pod.role, line.pod.index))

    def _say(self, lines: Sequence[Line], message: Mapping[str, Any]) -> None:
        for line in lines:
            line.writer.write(json.dumps(message).encode() + b"\n")
            self.sent += 1

    def _hang_up(self, pod: PodSeen) -> None:
        found = self._open.get(pod.job, {}).pop(pod.uid, None)
        if found is not None:
            found.writer.close()
            found.task.cancel()
            self.sent += 1

    async def _listen(self, job: JobId, reader: asyncio.StreamReader, asked: set[int]) -> None:
        while line := await reader.readline():
            said = json.loads(line)
            if "save" in said:
                self.heard += 1
                asked.add(said["save"])
                self._asked.append((job, said["save"]))

    async def _drain(self, writers: Iterable[asyncio.StreamWriter]) -> None:
        for writer in writers:
            await writer.drain()
