"""The table of published traces that experiments and benches read: repository, path there, licence, size, digest.

`files.csv` has a row per file of the folder that HEADWAY_TRACES names. `sha256` and `bytes` are those of the content
before compression, `jobs` is how many jobs its reader finds, `beside` is a file that the reader takes along. None of
the traces is part of Headway.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

FILE = Path(__file__).with_name("files.csv")


@dataclass(frozen=True, slots=True, kw_only=True)
class Repository:
    """On GitHub. The commit is that at which the files were read."""

    name: str
    commit: str
    date: str
    licence: str
    branch: str = ""
    """Empty: the default branch."""

    @property
    def url(self) -> str:
        return f"https://github.com/{self.name}"

    @property
    def folder(self) -> str:
        """What `git clone` calls it."""
        return self.name.rpartition("/")[2]

    @property
    def clone(self) -> str:
        return f"git clone --depth 1 {f'-b {self.branch} ' if self.branch else ''}{self.url}"


@dataclass(frozen=True, slots=True)
class Collection:
    name: str
    about: str
    bench: tuple[str, ...] = ()
    """Scripts in bench/ that read it."""


@dataclass(frozen=True, slots=True)
class Origin:
    """Where one file of the folder comes from."""

    file: str
    repository: Repository
    published: str
    """Its path there."""
    way: str
    """How the file is made of that: a name in `convert.WAYS`."""
    beside: str
    jobs: int | None
    """None: a table that goes with traces."""
    bytes: int
    sha256: str

    @property
    def collection(self) -> str:
        return self.file.partition("/")[0]


NO_LICENCE = "none stated"
REPOSITORIES: Mapping[str, Repository] = {
    one.name: one
    for one in (
        Repository(
            name="petuum/adaptdl", commit="c793c7089bd3", date="2021-08-23", branch="osdi21-artifact",
            licence="Apache-2.0 (on its default branch; Microsoft's Philly log is CC-BY-4.0)",
        ),
        Repository(name="microsoft/elasticflow-traces", commit="277ed24d0e90", date="2022-12-23", licence="MIT"),
        Repository(name="pkusys/ElasticFlow", commit="04a0109a6acd", date="2024-05-10", licence="Apache-2.0"),
        Repository(name="S-Lab-System-Group/ChronusArtifact", commit="bc7e15fefd53", date="2022-01-07", licence="MIT"),
        Repository(name="siasosp23/artifacts", commit="aaf7a0de7b6c", date="2023-08-15", licence=NO_LICENCE),
        Repository(name="stanford-futuredata/gavel", commit="c4fa40097339", date="2022-01-15", licence="MIT"),
        Repository(name="uw-mad-dash/shockwave", commit="8a44f4a27a45", date="2022-11-23", licence="MIT"),
        Repository(name="SymbioticLab/Tiresias", commit="959f9b08f44f", date="2020-05-06", licence="Apache-2.0"),
        Repository(
            name="alibaba/clusterdata", commit="7a6c496e4f4b", date="2026-04-27",
            licence=f"{NO_LICENCE} for this folder of it",
        ),
        Repository(name="dos-lab/Hydra", commit="e89f5b0559c8", date="2022-06-20", licence=NO_LICENCE),
        Repository(
            name="hyunnnchoi/AcmeTrace", commit="30f09c680939", date="2025-02-17",
            licence="CC-BY-4.0 (of InternLM/AcmeTrace, from which it was converted)",
        ),
    )
}  # fmt: skip
COLLECTIONS: Mapping[str, Collection] = {
    one.name: one
    for one in (
        Collection("philly", "Microsoft Philly, September to December 2017 (ATC 2019), as Pollux's authors reduced it: "
                   "jobs with a usable run", ("speed.py",)),
        Collection("common", "two parts of the same in Tiresias's form, to compare simulators", ("exact.py",)),
        Collection("elasticflow", "Microsoft ITP, March to May 2021, and what ElasticFlow's own simulator reads "
                   "(ASPLOS 2023). In ITP's trace submission, duration and GPUs are real; models, iterations and "
                   "deadlines are its authors'", ("elasticflow.py", "gap.py")),
        Collection("chronus", "Chronus (SoCC 2021): Philly's jobs with strict, soft and no deadlines, in minutes"),
        Collection("pollux", "Pollux (OSDI 2021): workloads by Philly's arrivals, measured profiles, its authors' own "
                   "results", ("pollux.py", "gap.py")),
        Collection("sia", "Sia (SOSP 2023): three families of workloads", ("gap.py",)),
        Collection("gavel", "Gavel (OSDI 2020): a virtual cluster of Philly, two traces of its own, and speeds by type "
                   "of GPU", ("gavel.py",)),
        Collection("shockwave", "Shockwave (NSDI 2023): jobs whose batch size changes"),
        Collection("tiresias", "Tiresias (NSDI 2019): the 60 jobs of its simulator", ("exact.py",)),
        Collection("alibaba", "Alibaba openb (ATC 2023): pods of a cluster with shared GPUs, and its nodes"),
        Collection("hydra", "Hydra: jobs of Alibaba PAI with times on three types of GPU and deadlines"),
        Collection("acme", "Shanghai AI Lab Acme (NSDI 2024): a sample of Kalos, converted by others; the time of an "
                   "iteration is the converter's"),
    )
}  # fmt: skip


@cache
def origins() -> tuple[Origin, ...]:
    """Every file of the folder, in order of collection."""
    with FILE.open(encoding="utf-8", newline="") as text:
        rows = list(csv.DictReader(text))
    found = [
        Origin(
            row["file"], REPOSITORIES[row["repository"]], row["published"], row["way"], row["beside"],
            int(row["jobs"]) if row["jobs"] else None, int(row["bytes"]), row["sha256"],
        )
        for row in rows
    ]  # fmt: skip
    return tuple(sorted(found, key=lambda one: list(COLLECTIONS).index(one.collection)))
