"""Texts of kernels in the side folder."""

from __future__ import annotations

import dataclasses
import gzip
import json
from typing import ClassVar

import pytest
from factories import build, header, launch, record, tuned_build

from portkit.errors import ReportError
from portkit.run.texts import TextsOfBuilds, kept_launches, scrubbed
from portkit.store import texts as store
from portkit.store.journal import Journal
from portkit.store.texts import BLOB, KernelTexts, pack, texts_of, unpack

SOFTMAX = KernelTexts("_softmax", {"ptx": "ret;", "source": "def _softmax(): ..."}, "kernels/softmax.py", 12)


def test_a_blob_gives_back_what_was_packed_in_the_order_of_the_stages():
    read = unpack(pack({"ab" * 8: SOFTMAX}), "here")
    assert read == {"ab" * 8: SOFTMAX}
    assert list(read["ab" * 8].stages) == ["source", "ptx"]


def test_the_same_texts_are_the_same_bytes():
    other = dataclasses.replace(SOFTMAX, stages=dict(reversed(SOFTMAX.stages.items())))
    assert pack({"a": SOFTMAX, "b": other}) == pack({"b": other, "a": SOFTMAX})


def test_escapes_of_a_hostile_report_reach_no_terminal():
    hostile = KernelTexts("k\x1b[31m", {"ptx": "a\x1b]0;title\x07\n\tb", "evil": "x"})
    (read,) = unpack(pack({"h": hostile}), "here").values()
    assert (read.kernel, dict(read.stages)) == ("k", {"ptx": "a\n\tb"})


@pytest.mark.parametrize(
    "content",
    [b"", b"no gzip", gzip.compress(b"[]"), gzip.compress(b'{"h": {}}'), pack({})[:-9]],
    ids=["empty", "no gzip", "a list", "no texts", "truncated"],  # a compressed text bears the time
)
def test_a_damaged_blob_is_named(content):
    with pytest.raises(ReportError, match=r"^here: is no blob of texts"):
        unpack(content, "here")


def test_a_bomb_is_not_unpacked(monkeypatch):
    monkeypatch.setattr(store, "_LARGEST", 1000)
    with pytest.raises(ReportError, match="unpacks to more than"):
        unpack(gzip.compress(b" " * 5000), "here")


def test_texts_of_a_record_lie_beside_its_report(tmp_path):
    journal = Journal.create(tmp_path, header())
    kept = journal.append(record(blobs={BLOB: journal.store_blob(BLOB, pack({"ab" * 32: SOFTMAX}))}))
    assert texts_of(kept, {kept.run_id: str(journal.path)}) == {"ab" * 32: SOFTMAX}


def test_a_record_without_texts_says_so():
    with pytest.raises(ReportError, match=r"softmax\[h200-.*no texts of its kernels were kept"):
        texts_of(record(), {})


def test_paths_in_texts_are_scrubbed():
    text = """#loc = loc("/home/ann/secret/work/kernels/softmax.py":98:0)
!1 = !DIFile(filename: "softmax.py", directory: "/home/ann/secret/kernels")
\t.file\t1 "/home/ann/secret/kernels" "softmax.py"
\t.file\t1 "/home/ann/secret/kernels/softmax.py"
%3 = arith.addf %1, %2 : f32"""
    assert scrubbed(text).split("\n") == [
        '#loc = loc("kernels/softmax.py":98:0)',
        '!1 = !DIFile(filename: "softmax.py", directory: "kernels")',
        '\t.file\t1 "kernels" "softmax.py"',
        '\t.file\t1 "kernels/softmax.py"',
        "%3 = arith.addf %1, %2 : f32",
    ]


def test_debug_sections_of_ptx_are_left_out_for_they_hold_paths_as_bytes():
    path = "\n".join(f".b8 {ord(letter)}" for letter in "/home/ann")
    ptx = f"ret;\n}}\n\t.section\t.debug_info\n\t{{\n{path}\n\t}}\n\t.section\t.debug_macinfo\t{{\t}}\n"
    kept = scrubbed(ptx)
    assert ".b8" not in kept
    assert kept.count("left out") == 2
    assert kept.startswith("ret;\n}\n\t.section\t.debug_info")


def test_of_an_open_choice_the_first_usable_configuration_is_kept():
    tuned = tuned_build()
    trials = [dataclasses.replace(x, kernel="_tuned") if x.trial else x for x in tuned.launches]
    kept = kept_launches(dataclasses.replace(tuned, launches=tuple(trials)))
    assert [(x.kernel, x.resources.registers_per_thread) for x in kept] == [("_softmax_kernel", 40), ("_tuned", 28)]


def test_trials_and_the_forward_pass_of_a_backward_cell_are_not_kept():
    launches = (launch(), launch(20, forward=True), launch(30, trial=True))
    assert [x.resources.registers_per_thread for x in kept_launches(build(*launches))] == [32]


class Function:
    """A function as Triton wraps it."""

    src = "def kernel(): pass  # /home/ann/x/y.py"
    fn = staticmethod(pack)


class Compiled:
    """What of Triton's compiled kernel is read."""

    name = "kernel"
    asm: ClassVar = {"source": "IR again", "ttir": "module", "cubin": b"\x7fELF", "ptx": "x" * 30}

    class src:  # noqa: N801
        fn = Function


def test_what_is_read_of_a_compiled_kernel(monkeypatch):
    monkeypatch.setattr("portkit.run.texts.LARGEST", 29)
    kept = TextsOfBuilds()
    kept.keep("ab" * 32, Compiled)
    (read,) = unpack(kept.blob(build())[BLOB], "here").values()
    assert read.stages == {"ttir": "module"}
    assert set(read.nulls) == {"ptx", "source"}
    assert (read.file, read.line) == ("store/texts.py", pack.__code__.co_firstlineno)


def test_a_cell_that_built_nothing_keeps_nothing():
    assert TextsOfBuilds().blob(None) == {}
    assert TextsOfBuilds().blob(build()) == {}


def test_the_blob_is_json_that_others_can_read():
    assert json.loads(gzip.decompress(pack({"h": SOFTMAX})))["h"]["stages"]["ptx"] == "ret;"
