"""Makes docs/leaderboard.md: heuristics, `learned` and PPO on the frozen suites.

    python bench/leaderboard.py            # minutes of all cores; a suite that is done is kept in --kept
    python bench/leaderboard.py --part validation --out -

PPO is not trained here, because that takes torch and hours: its row is what `bench/ppo.py` printed (bench/README.md).
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from pathlib import Path
from typing import Any

import numpy as np

from headway.compare.table import drawn_interval
from headway.learn.leaderboard import ranked, score_policies
from headway.learn.suites import SUITES

ROOT = Path(__file__).parents[1]
POLICIES = ("fifo", "backfill", "sjf", "srtf", "las", "optimus", "elastic", "headway", "learned")
PPO = {("fixed-v1", "test"): (1.093, 1.050, 1.158)}
"""Mean completion as a multiple of headway's, with its 95 % interval, as bench/ppo.py printed it on the same tasks."""
PAGE = """# Leaderboard

How near does each policy come to one that knows the truth?

{best}

{learned}

The tasks are those of the frozen suites ([learn.md](learn.md)), part `{part}`, {tasks} tasks each. *Gap closed*: 0 % is
first-fit, 100 % the best, task by task, of srtf, srsf, headway and elastic that know each job's true length. What the
others know is what jobs show. Nothing was tuned for this page. It is made by one command:

<!-- not run: it takes five minutes -->
```sh
python bench/leaderboard.py
```

The network of `learned` was trained on other tasks of `elastic-v1`, `bursty-v1` and `overbooked-v1`. On windows of real
traces it is no gain: [learning.md](learning.md).
"""
PPO_NOTE = """PPO is a MaskablePPO on Order-v0 (`bench/ppo.py`, 122,880 steps, imitation first). It was not run again
for this page. It took {ratio:.3f} times as long as the headway of its day on the same tasks ({low:.3f} to {high:.3f});
its row says where that is beside today's headway.
"""


def scored(name: str, part: str, kept: Path) -> dict[str, Any]:
    """The leaderboard of one suite; one that was made before is taken as it is."""
    file = kept / f"{name}-{part}.json"
    if not file.exists():
        suite, shares = SUITES[name], dict[int, float]()

        def tell(number: int, share: float) -> None:
            shares[number] = share
            print(f"\r{name}: {sum(shares.values()):.1f} runs", end="", file=sys.stderr, flush=True)

        found = ranked(suite, part, score_policies(suite, part, POLICIES, 2, tell))
        print(file=sys.stderr)
        kept.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(found, indent=1))
    return dict(json.loads(file.read_text()))


def rows(found: dict[str, Any]) -> list[tuple[float, str]]:
    """The best first: per cent of the gap, and the line of a table."""
    told = [
        (score["gap_closed"], f"| {score['policy']} | {_knows(score)} | {_figures(score)} |")
        for score in found["scores"]
    ]  # fmt: skip
    ppo = PPO.get((found["suite"], found["part"]))
    if ppo is not None:
        told.append(_ppo(found, ppo[0]))
    return sorted(told, key=lambda one: -one[0])


def _ppo(found: dict[str, Any], ratio: float) -> tuple[float, str]:
    base, first = (score_of(found, name) for name in ("headway", "first-fit"))
    whole = sum(math.log(a / b) for a, b in zip(first["tasks"], base["tasks"], strict=True)) / found["tasks"]
    gap = 100.0 * whole / base["gap_closed"]
    closed = base["gap_closed"] - 100.0 * math.log(ratio) / gap
    return closed, f"| PPO (kept scores) | what it sees | {ratio:.3f} x headway's | {closed:.1f} % |"


def _figures(score: dict[str, Any]) -> str:
    return f"{score['mean_completion']:,.0f} s | {score['gap_closed']:.1f} %"


def _knows(score: dict[str, Any]) -> str:
    return "the truth" if score["estimates"] == "oracle" else "what it sees"


def score_of(found: dict[str, Any], policy: str) -> dict[str, Any]:
    return next(one for one in found["scores"] if one["policy"] == policy and one["estimates"] != "oracle")


def page(boards: list[dict[str, Any]]) -> str:
    by_suite = {board["suite"]: board for board in boards}
    closed = {name: {policy: score_of(board, policy)["gap_closed"] for policy in POLICIES}
              for name, board in by_suite.items()}  # fmt: skip
    differ = ", ".join(f"{_against(board)} on `{name}`" for name, board in by_suite.items())
    text = PAGE.format(
        best="\n".join(f"- On `{name}` {_best(one)}." for name, one in closed.items()), part=boards[0]["part"],
        tasks=boards[0]["tasks"], learned=f"Mean completion under `learned` against headway: {differ}.",
    )  # fmt: skip
    for board in boards:
        suite = SUITES[board["suite"]]
        text += f"\n## `{suite.name}`: {suite.about}\n\nTasks `{board['digest']}`.\n\n"
        text += "| policy | knows | mean completion | gap closed |\n|---|---|---|---|\n"
        text += "".join(f"{line}\n" for _, line in rows(board))
        if (board["suite"], board["part"]) in PPO:
            ratio, low, high = PPO[board["suite"], board["part"]]
            text += "\n" + PPO_NOTE.format(ratio=ratio, low=low, high=high)
    return text


def _against(board: dict[str, Any]) -> str:
    """By how many per cent `learned` differs from headway, with its 95 % interval over tasks."""
    learned, plain = (np.array(score_of(board, name)["tasks"]) for name in ("learned", "headway"))
    logs = np.log(learned / plain)
    middle, low, high = (100 * np.expm1(value) for value in (logs.mean(), *drawn_interval(logs)))
    return f"{middle:+.1f} % ({low:+.1f} to {high:+.1f})"


def _best(closed: dict[str, float]) -> str:
    ordered = sorted(closed, key=lambda name: -closed[name])[:3]
    return ", ".join(f"{name} closes {closed[name]:.0f} % of the gap" for name in ordered[:1]) + "".join(
        f", {name} {closed[name]:.0f} %" for name in ordered[1:]
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", default="test", choices=["train", "validation", "test"])
    parser.add_argument("--suites", default=",".join(SUITES), help="names separated by commas")
    parser.add_argument("--out", default=str(ROOT / "docs" / "leaderboard.md"), help="- prints it")
    parser.add_argument("--kept", type=Path, default=Path("leaderboards"), help="folder of suites that are done")
    options = parser.parse_args()
    text = page([scored(name, options.part, options.kept) for name in options.suites.split(",")])
    if options.out == "-":
        print(text)
    else:
        Path(options.out).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
