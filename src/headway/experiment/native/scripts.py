"""The training scripts' side of the progress protocol: a connection for each job that trains, as its first replica."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from headway.core.job import JobId
from headway.experiment.native.trainers import Connects, Effect, HangsUp, Reports, Saved


class ScriptLines:
    """Speaks with a progress server at a `tcp` address. `sent` counts what the server makes an event of."""

    def __init__(self, address: str, name: Callable[[JobId], str]) -> None:
        """`name`: what the scheduler calls a job."""
        host, _, port = address.removeprefix("tcp:").rpartition(":")
        self._host, self._port, self._name = host, int(port), name
        self._open: dict[JobId, tuple[asyncio.StreamWriter, asyncio.Task[None]]] = {}
        self._asked: list[tuple[JobId, int]] = []
        self.sent = 0
        self.heard = 0
        """Requests to save that have come."""

    async def perform(self, effects: Sequence[Effect]) -> None:
        for effect in effects:
            match effect:
                case Connects(pod=pod, steps=steps):
                    await self._connect(pod.job, pod.role, pod.index, pod.attempt, steps)
                case Reports(job=job, step=step, loss=loss):
                    self._say(job, {"step": step, "loss": loss})
                case Saved(job=job, request=request, step=step, seconds=seconds):
                    self._say(job, {"saved": request, "step": step, "seconds": seconds})
                case HangsUp(job=job):
                    self._hang_up(job)
        await self._drain(writer for writer, _ in self._open.values())

    def asked(self) -> list[tuple[JobId, int]]:
        taken, self._asked = self._asked, []
        return taken

    async def close(self) -> None:
        for job in list(self._open):
            self._hang_up(job)
        await asyncio.sleep(0)

    async def _connect(self, job: JobId, role: str, index: int, attempt: int, steps: int) -> None:
        reader, writer = await asyncio.open_connection(self._host, self._port)
        self._open[job] = writer, asyncio.create_task(self._listen(job, reader))
        self._say(job, {"hello": 1, "job": self._name(job), "role": role, "index": index, "attempt": attempt,
                        "can_save": True, "total_steps": steps})  # fmt: skip

    def _say(self, job: JobId, message: Mapping[str, Any]) -> None:
        if job in self._open:
            self._open[job][0].write(json.dumps(message).encode() + b"\n")
            self.sent += 1

    def _hang_up(self, job: JobId) -> None:
        found = self._open.pop(job, None)
        if found is not None:
            found[0].close()
            found[1].cancel()
            self.sent += 1

    async def _listen(self, job: JobId, reader: asyncio.StreamReader) -> None:
        while line := await reader.readline():
            said = json.loads(line)
            if "save" in said:
                self.heard += 1
                self._asked.append((job, said["save"]))

    async def _drain(self, writers: Iterable[asyncio.StreamWriter]) -> None:
        for writer in writers:
            await writer.drain()
