"""Many pods from a real API server: in pages, at once, or as a stream? `python bench/lists.py [--pods 50000]`.

Each way reads and decodes all pods, in turns; a stream is `sendInitialEvents=true` of a watch, until its bookmark says
that all were told. Seconds, and processor seconds of the client.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable

import msgspec

from headway.kube.api.access import load_access
from headway.kube.api.client import Client
from headway.kube.api.objects import Pod, WatchLine
from headway.lab import Lab

PODS = "/api/v1/pods"
STREAM = (
    f"{PODS}?watch=true&allowWatchBookmarks=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"
    "&resourceVersion="
)
TOLD = b"k8s.io/initial-events-end"
AT_ONCE = 32
_pods, _lines = msgspec.json.Decoder(Pod), msgspec.json.Decoder(WatchLine)


def a_pod(number: int) -> dict[str, object]:
    env = [{"name": name, "value": "a value of some length"} for name in ("JOB", "ROLE", "RANK", "WORLD_SIZE")]
    container = {"name": "main", "image": "registry.example/train:1", "command": ["python", "train.py"], "env": env,
                 "resources": {"requests": {"cpu": "1", "memory": "2Gi"}}}  # fmt: skip
    meta = {"name": f"pod-{number}", "labels": {"app": "train", "job": f"job-{number // 8}"}}
    return {"metadata": meta, "spec": {"nodeName": f"n{number % 5000}", "containers": [container]}}


async def fill(client: Client, count: int) -> None:
    numbers = iter(range(count))

    async def some() -> None:
        for number in numbers:
            await client.post("/api/v1/namespaces/default/pods", a_pod(number))

    await asyncio.gather(*(some() for _ in range(AT_ONCE)))


async def pages(client: Client) -> int:
    return sum([len([_pods.decode(one) for one in page.items]) async for page in client.list_pages(PODS)])


async def whole(client: Client) -> int:
    """From the server's cache, without a limit."""
    listed = msgspec.json.decode(await client.get(f"{PODS}?resourceVersion=0"), type=dict[str, msgspec.Raw])
    return len(msgspec.json.decode(listed["items"], type=list[Pod]))


async def stream(client: Client) -> int:
    found, rest = 0, b""
    async for chunk in client.stream(STREAM):
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            read = _lines.decode(line)
            if read.type == "BOOKMARK" and TOLD in line:
                return found
            found += read.type == "ADDED" and bool(_pods.decode(read.object).metadata.name)
    raise RuntimeError("the stream ended before all was told")


WAYS: dict[str, Callable[[Client], Awaitable[int]]] = {"pages": pages, "at once": whole, "stream": stream}


async def measure(lab: Lab, count: int, rounds: int) -> None:
    took = defaultdict[str, list[tuple[float, float]]](list)
    async with Client(load_access(lab.kubeconfig)) as client:
        await fill(client, count)
        for _, (name, way) in itertools.product(range(rounds), WAYS.items()):
            began, cpu = time.monotonic(), time.process_time()
            found = await way(client)
            took[name].append((time.monotonic() - began, time.process_time() - cpu))
            assert found == count, f"{name}: {found} of {count}"
    for name, times in took.items():
        seconds, cpu = zip(*sorted(times), strict=True)
        print(f"{name:8} {' '.join(f'{one:5.1f}' for one in seconds)} s, {min(cpu):.1f} s of the client's processor")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pods", type=int, default=50_000)
    parser.add_argument("--rounds", type=int, default=3)
    chosen = parser.parse_args()
    lab = Lab.up("lists", owned=True, bench=True)
    try:
        lab.kill("kube-scheduler")
        lab.kill("kube-controller-manager")
        asyncio.run(measure(lab, chosen.pods, chosen.rounds))
    finally:
        lab.down()


if __name__ == "__main__":
    main()
