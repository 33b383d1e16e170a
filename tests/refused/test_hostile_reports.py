"""Reports and archives from anyone: refused by name or shown as text, in bounded memory."""

import bz2
import gzip
import hashlib
import io
import json
import lzma
import os
import resource
import subprocess
import sys
import tarfile
import zipfile

import pytest
from factories import header, host, record
from test_merge import run, write
from test_reports import HEADER, MEASURED, RECORD, _edited, _line, ending

from portkit.analysis.distance import distances
from portkit.errors import ReportError
from portkit.model import Evidence
from portkit.store import archives, journal, schema
from portkit.store.journal import blob_path, read_blob, read_report
from portkit.store.merge import merge

WHOLE = HEADER + RECORD + ending(1)

MIB = 1 << 20


def refusal(path) -> ReportError:
    with pytest.raises(ReportError) as caught:
        merge([path])
    return caught.value


ABSURD = {
    "NaN": (("timing", "fused", "events", "low_ms"), float("nan"), "it is nan"),
    "infinite": (("seconds",), float("inf"), "it is inf"),
    "a negative time": (("timing", "fused", "events", "high_ms"), -1.0, "less than 0"),
    "negative registers": (("build", "launches", 0, "resources", "registers_per_thread"), -1, "less than 0"),
    "a shape beyond counting": (("cell", "shape", 0), 10**30, "more than 9223372036854775807"),
    "a time beyond counting": (("timing", "fused", "events", "median_ms"), 1e300, "more than"),
    "a time nearer to 0 than any": (("timing", "fused", "events", "low_ms"), 1e-320, "nearer to 0 than 1e-99"),
    "more digits than a number has": (("work", "flops"), 10**4000, "more than"),
}


@pytest.mark.parametrize(("field", "value", "words"), ABSURD.values(), ids=ABSURD)
def test_an_absurd_figure_is_refused_by_its_field(tmp_path, field, value, words):
    path = tmp_path / "r.jsonl"
    path.write_bytes(HEADER + _edited(MEASURED, *field, to=value))
    error = refusal(path)
    assert error.place == f"{path}:2: {'.'.join(map(str, field))}"
    assert words in error.message


def test_what_a_compiler_or_a_wrong_kernel_chose_may_be_any_number(tmp_path):
    odd = json.loads(json.dumps(schema.plain(MEASURED)))
    odd["build"]["launches"][0]["options"] = {"waves_per_eu": -1}
    odd["verdict"]["outputs"][0]["fused_error"] = float("nan")
    path = tmp_path / "r.jsonl"
    path.write_bytes(HEADER + _line("record", **odd))
    assert read_report(path).records[0].build.launches[0].options == {"waves_per_eu": -1}


@pytest.mark.parametrize("run_id", ["../../etc/passwd", "/root", "a/b", "", ".", "x" * 101, "a\nb", "<b>"])
def test_a_run_is_not_named_like_a_path(tmp_path, run_id):
    path = tmp_path / "r.jsonl"
    path.write_bytes(_edited(header(), "run_id", to=run_id))
    error = refusal(path)
    assert error.place == f"{path}:1: run_id"
    assert "a run is not named" in error.message


@pytest.mark.parametrize("depth", [900, 100_000])
def test_deep_nesting_is_refused(tmp_path, depth):
    nested = b'{"kind":"record","asked":' + b'{"a":' * depth + b"1" + b"}" * depth + b',"sum":"0"}\n'
    path = tmp_path / "r.jsonl"
    path.write_bytes(HEADER + nested)
    assert refusal(path).place == f"{path}:2"


def test_deep_nesting_with_a_right_checksum_is_refused(tmp_path):
    deep = 1
    for _ in range(400):
        deep = [deep]
    path = tmp_path / "r.jsonl"
    path.write_bytes(HEADER + _line("record", **{**schema.plain(record()), "asked": {"a": deep}}))
    assert refusal(path).place.startswith(f"{path}:2")


def test_foreign_text_is_shown_without_what_steers_a_terminal(tmp_path):
    evil = schema.plain(record())
    evil["outcome"]["message"] = "\x1b[2J\x07 \u202egnp.exe \u2066 日本語"
    path = tmp_path / "r.jsonl"
    path.write_bytes(HEADER + _line("record", **evil))
    assert read_report(path).records[0].outcome.message == "? ?gnp.exe ? 日本語"


def test_bytes_of_another_encoding_are_refused(tmp_path):
    path = tmp_path / "r.jsonl"
    path.write_bytes(HEADER + RECORD.replace(b"softmax", "größe".encode("latin-1")))
    assert refusal(path).place == f"{path}:2"


READ = "import sys; from pathlib import Path; from portkit.store.merge import merge; merge([Path(sys.argv[1])])"


def refused_within(path, mib):
    """The message of a process that may take only so much memory."""

    def limit():
        resource.setrlimit(resource.RLIMIT_AS, (mib * MIB, mib * MIB))

    done = subprocess.run(
        [sys.executable, "-c", READ, str(path)], capture_output=True, text=True, check=False, preexec_fn=limit
    )
    return done.stderr.splitlines()[-2:]


@pytest.mark.parametrize("start", [b"", HEADER + b'{"kind":"record","asked":"'], ids=["header", "record"])
def test_a_line_of_a_gigabyte_is_refused_in_little_memory(tmp_path, start):
    path = tmp_path / "r.jsonl"
    with path.open("wb") as file:
        file.write(start)
        file.truncate(1 << 30)  # zeros, no line end
    assert any("a line of more than" in line for line in refused_within(path, 600))


def pack_zip(path, members, **how):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, **how) as archive:
        for name, content in members:
            archive.writestr(name, content)


def pack_tar(path, members, mode="w:gz"):
    with tarfile.open(path, mode) as archive:
        for name, content in members:
            info = name if isinstance(name, tarfile.TarInfo) else tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))


PACKED = {".zip": pack_zip, ".tar.gz": pack_tar}
TARS = {".tar": "w", ".tgz": "w:gz", ".tar.bz2": "w:bz2", ".tar.xz": "w:xz"}


def test_reports_of_archives_are_merged_and_named(tmp_path):
    plain = tmp_path / "plain.jsonl"
    plain.write_bytes(WHOLE)
    expected = merge([plain])
    blob = ("runs/r.blobs/ab/ab", b"x" * 100)
    members = [("runs/r.jsonl", WHOLE), blob, ("runs/notes.txt", b"passed over")]
    pack_zip(tmp_path / "a.zip", members)
    assert merge([tmp_path / "a.zip"]) == expected
    for ending_, mode in TARS.items():
        pack_tar(tmp_path / f"a{ending_}", members, mode)
        found = merge([tmp_path / f"a{ending_}"])
        assert found == expected
    (path,) = found.paths.values()
    with open(path.replace(".jsonl", ".blobs/ab/ab"), "rb") as file:  # noqa: PTH123
        assert file.read() == blob[1]


@pytest.mark.parametrize("ending_", PACKED)
def test_a_damaged_report_in_an_archive_is_named_by_archive_and_member(tmp_path, ending_):
    path = tmp_path / f"a{ending_}"
    PACKED[ending_](path, [("x/r.jsonl", HEADER + RECORD.replace(b"softmax", b"softmix"))])
    error = refusal(path)
    assert error.place == f"{path}/x/r.jsonl:2"
    assert "checksum" in error.message


@pytest.mark.parametrize("name", ["../r.jsonl", "/tmp/r.jsonl", "a/../../r.jsonl", "a\\..\\r.jsonl"])
@pytest.mark.parametrize("ending_", PACKED)
def test_a_member_that_leads_out_is_refused_by_name(tmp_path, ending_, name):
    path = tmp_path / f"a{ending_}"
    PACKED[ending_](path, [(name, WHOLE)])
    error = refusal(path)
    assert (error.place, error.message) == (str(path), f"member {name!r} leads out of the archive")


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize("ending_", PACKED)
def test_a_member_that_stands_twice_is_refused(tmp_path, ending_):
    path = tmp_path / f"a{ending_}"
    PACKED[ending_](path, [("r.jsonl", WHOLE), ("r.jsonl", WHOLE)])
    assert refusal(path).message == "member 'r.jsonl' stands twice in the archive"


def link(kind):
    info = tarfile.TarInfo("r.jsonl")
    info.type, info.linkname = kind, "/etc/passwd"
    return info


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE])
def test_links_and_devices_of_a_tar_are_refused(tmp_path, kind):
    pack_tar(tmp_path / "a.tar", [(link(kind), b"")], "w")
    assert "is a link, a device" in refusal(tmp_path / "a.tar").message


def test_a_link_of_a_zip_is_refused(tmp_path):
    info = zipfile.ZipInfo("r.jsonl")
    info.external_attr = 0o120777 << 16
    pack_zip(tmp_path / "a.zip", [(info, "/etc/passwd")])
    assert refusal(tmp_path / "a.zip").message == "member 'r.jsonl' is a link"


BOMBS = [(".zip", "r.jsonl"), (".tar.gz", "r.jsonl"), (".tar.gz", "passed_over.bin")]
"""What is passed over in a zip is never unpacked."""


@pytest.mark.parametrize(("ending_", "member"), BOMBS)
def test_a_bomb_is_refused_before_it_fills_the_disk(tmp_path, ending_, member, monkeypatch):
    monkeypatch.setattr(archives, "_FREE_BYTES", 4 * MIB)
    path = tmp_path / f"bomb{ending_}"
    PACKED[ending_](path, [("good.jsonl", WHOLE), (member, bytes(5 * MIB))])
    error = refusal(path)
    assert (error.place, error.message[:33]) == (str(path), f"unpacks to more than {4 * MIB} bytes"[:33])


def test_a_zip_that_lies_about_a_size_is_refused(tmp_path):
    path = tmp_path / "a.zip"
    pack_zip(path, [("r.jsonl", WHOLE)])
    content = path.read_bytes()
    size = len(WHOLE).to_bytes(4, "little")
    assert content.count(size) == 2
    path.write_bytes(content.replace(size, (10).to_bytes(4, "little")))
    refusal(path)


@pytest.mark.parametrize("name", ["a.zip", "a.tar", "a.tar.gz", "a.tar.xz"])
def test_what_is_no_archive_is_refused_by_name(tmp_path, name):
    path = tmp_path / name
    path.write_bytes(b"PK\x03\x04 no archive at all")
    error = refusal(path)
    assert error.place == str(path)
    pack_tar(tmp_path / "cut.tgz", [("r.jsonl", WHOLE * 50)])
    whole = (tmp_path / "cut.tgz").read_bytes()
    (tmp_path / "cut.tgz").write_bytes(whole[: len(whole) // 2])
    assert "can't be read" in refusal(tmp_path / "cut.tgz").message


def test_an_archive_without_a_report_is_refused(tmp_path):
    pack_zip(tmp_path / "a.zip", [("log.jsonl", b'{"a":1}\n'), ("b.txt", b"")])
    error = refusal(tmp_path / "a.zip")
    assert error.message.startswith("no report in this archive; left out log.jsonl: not a line of a portkit report")


@pytest.mark.parametrize("ending_", PACKED)
def test_an_archive_within_is_named_and_not_opened(tmp_path, ending_):
    pack_zip(tmp_path / "in.zip", [("r.jsonl", WHOLE)])
    inner = ("a/in.zip", (tmp_path / "in.zip").read_bytes())
    path = tmp_path / f"out{ending_}"
    PACKED[ending_](path, [inner])
    told = "left out a/in.zip: an archive within is not opened, so name it by itself"
    assert refusal(path).message == f"no report in this archive; {told}"
    PACKED[ending_](path, [inner, ("r.jsonl", WHOLE)])
    assert told in merge([path]).warnings


def test_an_archive_of_a_folder_is_named_and_not_opened(tmp_path):
    (tmp_path / "r.jsonl").write_bytes(WHOLE)
    (tmp_path / "r.blobs").mkdir()
    pack_zip(tmp_path / "r.blobs" / "blob.zip", [])  # no part of what is searched
    pack_zip(tmp_path / "b.zip", [("r.jsonl", WHOLE)])
    assert [each for each in merge([tmp_path]).warnings if "left out" in each] == [
        "left out b.zip: an archive within is not opened, so name it by itself"
    ]


@pytest.mark.parametrize(("name", "why"), [("n" * 300, "File name too long"), ("r.jsonl/r", "File exists")])
@pytest.mark.parametrize("ending_", PACKED)
def test_a_member_that_no_disk_has_room_for_is_named(tmp_path, ending_, name, why):
    PACKED[ending_](tmp_path / f"a{ending_}", [("r.jsonl", WHOLE), (f"{name}.jsonl", WHOLE)])
    error = refusal(tmp_path / f"a{ending_}")
    assert error.message.startswith(f"member '{name[:190]}")
    assert why in error.message or len(name) > 190


PACKERS = {"gzip": gzip.compress, "bzip2": bz2.compress, "xz": lzma.compress, "zstd": lambda _: b"\x28\xb5\x2f\xfd\0"}


@pytest.mark.parametrize(("packed", "pack"), PACKERS.items(), ids=PACKERS)
@pytest.mark.parametrize("name", ["r.jsonl", "reports.tar.zst"])
def test_a_file_that_is_packed_says_so(tmp_path, packed, pack, name):
    (tmp_path / name).write_bytes(pack(WHOLE))
    error = refusal(tmp_path / name)
    assert (error.place, error.message.partition(",")[0]) == (str(tmp_path / name), f"is packed with {packed}")


def test_pipes_and_devices_are_refused_and_passed_over_in_folders(tmp_path):
    os.mkfifo(tmp_path / "pipe.jsonl")
    (tmp_path / "zero.jsonl").symlink_to("/dev/zero")
    for name in ("pipe.jsonl", "zero.jsonl"):
        assert refusal(tmp_path / name).message == "is a pipe, a device or a socket, and no file"
    (tmp_path / "r.jsonl").write_bytes(WHOLE)
    assert len(merge([tmp_path]).headers) == 1


def test_a_name_without_end_is_refused(tmp_path):
    name = tarfile.TarInfo("r.jsonl")
    name.pax_headers = {"comment": "x" * (2 * MIB)}
    pack_tar(tmp_path / "a.tar", [(name, WHOLE)], "w")
    assert "a member's header has" in refusal(tmp_path / "a.tar").message


@pytest.mark.parametrize("address", ["/dev/zero", "../" * 20 + "etc/passwd", "a" * 63, "A" * 64, "", "a" * 64 + "/"])
def test_a_blob_has_the_address_of_its_content_and_no_path(tmp_path, address):
    with pytest.raises(ReportError, match="no blob has the address"):
        read_blob(tmp_path / "r.jsonl", address)


def test_a_blob_too_large_is_not_read(tmp_path, monkeypatch):
    monkeypatch.setattr(journal, "_LARGEST_BLOB", 10)
    path = blob_path(tmp_path / "r.jsonl", "a" * 64)
    path.parent.mkdir(parents=True)
    path.write_bytes(b"x" * 11)
    with pytest.raises(ReportError, match="no file of at most 10 bytes"):
        read_blob(tmp_path / "r.jsonl", "a" * 64)


ODD = {
    "list": [],
    "text": "x",
    "output without form": {"input_hash": "i", "outputs": [{"name": "0"}]},
    "outputs that are none": {"input_hash": "i", "outputs": 5},
    "unknown dtype": {"input_hash": "i", "outputs": [{"name": "0", "dtype": "x", "shape": [], "hash": "", "bits": ""}]},
}


@pytest.mark.parametrize("content", ODD.values(), ids=ODD)
def test_a_fingerprint_that_is_none_is_a_reason(tmp_path, content):
    blob = json.dumps(content).encode()
    address = hashlib.sha256(blob).hexdigest()
    for number, host_id in ((1, "one"), (2, "two")):
        here = run(number, host=host(host_id=host_id))
        path = write(tmp_path, here, record(Evidence.MEASURED, run=here, blobs={"fingerprint": address}))
        blob_path(path, address).parent.mkdir(parents=True)
        blob_path(path, address).write_bytes(blob)
    (found,) = distances(merge([tmp_path]))
    assert found.reason.startswith("a fingerprint is no such")
