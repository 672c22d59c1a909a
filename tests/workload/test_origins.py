"""The table of published traces: it is sound, its files are made of what is published, and a folder is checked."""

from __future__ import annotations

import gzip
import io
import tarfile
from dataclasses import replace
from hashlib import sha256

import pytest

from headway.core.errors import UserError
from headway.workload.errors import WorkloadError
from headway.workload.open import open_workload
from headway.workload.origins.check import check, lacking
from headway.workload.origins.convert import ITP_CLUSTERS, WAYS, content_of, convert
from headway.workload.origins.table import COLLECTIONS, REPOSITORIES, Origin, origins

PHILLY = """timestamp,duration,num_gpus,gpu_time,cluster
2017-10-09 00:02:00,50.0,2,100.0,ee9e8c
2017-10-09 00:00:00,7.0,8,56.0,7f04ca
2017-10-09 00:01:00,66.0,1,66.0,ee9e8c
2017-10-09 00:01:00,30.0,4,120.0,11cb48
"""
TIRESIAS = "job_id,num_gpu,submit_time,iterations,model_name,duration\n0,1,0,1000,resnet50,{}\n1,2,60,1000,resnet50,9\n"


def silent(share: float) -> None:
    assert 0 <= share < 1


def an_origin(file: str, published: str, content: bytes, *, way: str = "as published", jobs: int | None = 2) -> Origin:
    repository = REPOSITORIES["SymbioticLab/Tiresias"]
    return Origin(file, repository, published, way, "", jobs, len(content), sha256(content).hexdigest())


def test_the_table_is_sound():
    files = [one.file for one in origins()]
    assert len(set(files)) == len(files)
    assert list(dict.fromkeys(one.collection for one in origins())) == list(COLLECTIONS)
    assert {one.repository for one in origins()} == set(REPOSITORIES.values())
    for one in origins():
        assert one.way in WAYS
        assert ".." not in one.file + one.published
        assert not one.beside or one.beside in files
        assert len(one.sha256) == 64
        assert one.bytes > 0
        assert one.jobs is None or one.jobs > 0


def test_philly_is_sorted_numbered_and_cut(tmp_path):
    source = tmp_path / "philly.csv"
    source.write_text(PHILLY)
    made = WAYS["philly"].make(source).decode().splitlines()
    assert made == [
        "job_id,submit_s,submit_time,duration_s,num_gpus,vc",
        "1,60,2017-10-09 00:01:00,30,4,11cb48",
        "2,60,2017-10-09 00:01:00,66,1,ee9e8c",
        "3,120,2017-10-09 00:02:00,50,2,ee9e8c",
    ]
    (tmp_path / "ours.csv").write_text("\n".join(made))
    assert [job.seconds for job in open_workload(tmp_path / "ours.csv").jobs] == [30, 66, 50]


def test_the_parts_of_philly_are_in_tiresias_form(tmp_path):
    source = tmp_path / "philly.csv"
    source.write_text(PHILLY)
    assert WAYS["philly ee9e8c"].make(source).decode().splitlines()[1:] == [
        "0,1,0,1000,resnet50,66,60,ee9e8c",
        "1,2,60,1000,resnet50,50,0,ee9e8c",
    ]
    head, *rows = PHILLY.splitlines()
    source.write_text("\n".join([head, *(rows[1] for _ in range(10_000)), rows[0], rows[2]]))
    made = WAYS["philly 5000"].make(source).decode().splitlines()[1:]
    assert made == ["0,1,0,1000,resnet50,66,60,ee9e8c", "1,2,60,1000,resnet50,50,0,ee9e8c"]


def test_itp_is_its_clusters_one_after_the_other(tmp_path):
    head = "job_id,submission_time,num_iteration,model_name,deadline,batch_size,num_gpu,duration\n"
    source = tmp_path / "itp.tar.gz"
    with tarfile.open(source, "w:gz") as archive:
        for cluster in ("cluster03", *reversed(ITP_CLUSTERS)):
            content = f"{head}b,10,5,bert,99,64,4,50\na,10,6,vgg16,98,32,2,40\nc,7,7,gpt2,97,16,1,30\n".encode()
            member = tarfile.TarInfo(f"{cluster}.csv")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    made = WAYS["itp"].make(source).decode().splitlines()
    assert made[:4] == [
        "cluster,job,submit_s,duration_s,num_gpu,model_name,batch_size,num_iteration,deadline_s",
        "cluster01,0,7,30,1,gpt2,16,7,97",
        "cluster01,1,10,40,2,vgg16,32,6,98",
        "cluster01,2,10,50,4,bert,64,5,99",
    ]
    assert len(made) == 1 + 3 * len(ITP_CLUSTERS)
    (tmp_path / "ours.csv").write_text("\n".join(made))
    assert len(open_workload(tmp_path / "ours.csv").jobs) == 3 * len(ITP_CLUSTERS)


@pytest.mark.parametrize("way", ["philly", "itp"])
def test_another_file_than_the_published_one_is_a_sentence(tmp_path, way):
    (tmp_path / "Tiresias").mkdir()
    (tmp_path / "Tiresias/x").write_text("a,b\n1,2\n")
    with pytest.raises(WorkloadError, match="Tiresias/x: this is not the published file"):
        convert(tmp_path, tmp_path / "out", [an_origin("tiresias/x", "x", b"", way=way)], silent)


def test_files_are_made_from_clones_and_never_overwritten(tmp_path):
    """Ours is gzipped where its name says so; a second time nothing is to be done."""
    content = TIRESIAS.format(5).encode()
    (tmp_path / "Tiresias/data").mkdir(parents=True)
    (tmp_path / "Tiresias/data/jobs.csv").write_bytes(content)
    one = an_origin("tiresias/jobs.csv.gz", "data/jobs.csv", content)
    gone = an_origin("tiresias/gone.csv", "data/gone.csv", content)
    other = replace(one, file="tiresias/other.csv", sha256="0" * 64)
    found = convert(tmp_path, tmp_path / "out", [one, gone, other], silent)
    assert (found.made, found.kept, found.other) == ((one,), (), (other,))
    assert found.absent == {one.repository: (gone,)}
    target = tmp_path / "out/tiresias/jobs.csv.gz"
    assert gzip.decompress(target.read_bytes()) == content == content_of(target)
    assert convert(tmp_path, tmp_path / "out", [one], silent).kept == (one,)
    target.write_text("my own")
    with pytest.raises(UserError, match=r"jobs\.csv\.gz: is there, with other content"):
        convert(tmp_path, tmp_path / "out", [one], silent)
    assert target.read_text() == "my own"


def test_a_folder_is_checked_file_by_file(tmp_path):
    content = TIRESIAS.format(5).encode()
    files = {name: an_origin(f"{name}.csv.gz", name, content) for name in ("good", "gone", "other", "damaged", "short")}
    (tmp_path / "good.csv.gz").write_bytes(content)  # not gzipped, whatever its name says
    (tmp_path / "other.csv.gz").write_bytes(gzip.compress(TIRESIAS.format(6).encode()))
    (tmp_path / "damaged.csv.gz").write_bytes(gzip.compress(content)[:-9])
    (tmp_path / "short.csv.gz").write_bytes(gzip.compress(content.rpartition(b"1,2")[0]))
    found = check(tmp_path, list(files.values()), silent)
    assert [(one.state, one.jobs) for one in found] == [
        ("ok", 2), ("missing", None), ("differs", 2), ("unreadable", None), ("differs", 1),
    ]  # fmt: skip
    assert found[4].says.endswith("short.csv.gz: not the content that was published, 1 jobs instead of 2")
    by_file = {one.origin.file: one for one in found}
    assert [one.origin.file for one in lacking(by_file, by_file)] == ["gone.csv.gz", "damaged.csv.gz"]
    with pytest.raises(UserError, match="nowhere: there is no such folder"):
        check(tmp_path / "nowhere", [], silent)


def test_what_a_reader_takes_along_is_needed_too(tmp_path):
    table = an_origin("table.json", "t", b"{}", jobs=None)
    trace = replace(an_origin("trace.csv", "x", TIRESIAS.format(5).encode()), beside="table.json")
    (tmp_path / "trace.csv").write_text(TIRESIAS.format(5))
    found = {one.origin.file: one for one in check(tmp_path, [table, trace], silent)}
    assert [one.origin.file for one in lacking(["trace.csv"], found)] == ["table.json"]
