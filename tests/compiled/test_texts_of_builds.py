"""Source, IR and assembly that a build leaves."""

from __future__ import annotations

from factories import cell

from portkit.model import CellResult, Evidence, Outcome, Status
from portkit.run.texts import TextsOfBuilds
from portkit.run.worker import with_texts
from portkit.store.texts import BLOB, unpack


def test_each_vendor_has_all_its_stages(workshop):
    cuda, rocm = workshop.build_case("platform_branches.py", "warps", "h100", "mi300x")
    for result, last in ((cuda, "ptx"), (rocm, "amdgcn")):
        kept = unpack(result.blobs[BLOB], "here")
        assert list(kept) == [result.build.launches[0].binary_hash]
        (texts,) = kept.values()
        assert list(texts.stages) == ["source", "ttir", "ttgir", "llir", last]
        assert texts.stages["source"].startswith(f"def {texts.kernel}(")
        assert f"tt.func public @{texts.kernel}" in texts.stages["ttir"]
        assert texts.file == "cases/platform_branches.py"
        assert "tests/compiled" not in str(texts)


def test_texts_that_can_not_be_read_cost_no_cell(monkeypatch):
    texts = TextsOfBuilds()
    monkeypatch.setattr(texts, "blob", lambda build: {}[build])
    kept = with_texts(lambda cell: CellResult(cell, Evidence.COMPILED, Outcome(Status.BUILT)), texts)(cell())
    assert kept.outcome.status is Status.BUILT
    assert kept.nulls["texts"].startswith("can't be read: KeyError")
