"""Does our parser of quantities read what the API server reads? Both read generated texts.

    python bench/quantities.py [--texts 10000] [--seed 1] [--record FILE]

Prints how many of the texts are read alike. Of amounts below 0, which validation refuses, and above 2^63 thousandths,
only whether they are read at all is compared: there the API server's own numbers wrap around. Needs
`headway lab build filter-check`.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from pathlib import Path

from headway.core.quantity import CPU, MEMORY, QuantityError, count
from headway.lab.filter_check import FilterCheck, NativeQuantity

SUFFIXES = ["", "n", "u", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"]
ODD = ["", ".", "+", "-", "Ki", "Pi", "e3", "1e", "1e+", "1E-", "K", "1K", "Kim", "1 Gi", " 1", "0x10", "1_000", "1ki",
       "1.2.3", "--1", "1i", "1mm", "+.5", ".5Gi", "5.", "1.Ei", "inf", "nan", "1e1.5"]  # fmt: skip
HUGE = 2**63 // 1000


def generated(random_: random.Random, texts: int) -> list[str]:
    found = list(ODD)
    while len(found) < texts:
        sign = random_.choice(["", "", "", "", "", "", "", "", "+", "-"])
        whole = str(random_.randrange(10 ** random_.randint(0, 9))).zfill(random_.choice([0, 0, 0, 4]))
        part = random_.choice(["", "", "", ".", "." + str(random_.randrange(10 ** random_.randint(1, 12)))])
        tail = random_.choice(
            [*SUFFIXES, *SUFFIXES[:7], *SUFFIXES[10:13], f"e{random_.randint(-14, 12)}", f"E+{random_.randint(0, 9)}"]
        )
        text = sign + random_.choice([whole, whole, whole, ""]) + part + tail
        if random_.random() < 0.1 and text:
            at = random_.randrange(len(text))
            text = text[:at] + random_.choice("0.eEinumkKMGTP+- x") + text[at + random_.randint(0, 1) :]
        found.append(text)
    return found


def ours(text: str) -> NativeQuantity:
    try:
        return NativeQuantity(ok=True, milli=count(CPU, text), value=count(MEMORY, text))
    except QuantityError:
        return NativeQuantity(ok=False, milli=0, value=0)


def has_number(read: NativeQuantity) -> bool:
    return 0 <= read.value < HUGE


def alike(mine: NativeQuantity, theirs: NativeQuantity) -> bool:
    return mine == theirs if has_number(mine) else mine.ok == theirs.ok


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--texts", type=int, default=10_000)
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--record", type=Path, help="write the verdicts to this file")
    given = options.parse_args()
    texts = generated(random.Random(given.seed), given.texts)
    with FilterCheck() as native:
        verdicts = native.quantities(texts)
    pairs = [(text, ours(text), verdict) for text, verdict in zip(texts, verdicts, strict=True)]
    differ = [pair for pair in pairs if not alike(pair[1], pair[2])]
    for text, mine, theirs in differ[:20]:
        print(f"{text!r}: we read {mine}, the API server {theirs}")
    refused = sum(not theirs.ok for _, _, theirs in pairs)
    whole = sum(mine.ok and has_number(mine) for _, mine, _ in pairs)
    print(f"{len(pairs) - len(differ)} of {len(pairs)} texts are read alike:")
    print(f"{whole} to the same number, {refused} refused, {len(pairs) - whole - refused} read but out of range")
    if given.record:
        lines = [[text, theirs.ok, theirs.milli, theirs.value] for text, mine, theirs in pairs if has_number(mine)]
        given.record.write_text("[\n" + ",\n".join(json.dumps(line) for line in lines) + "\n]\n")
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main())
