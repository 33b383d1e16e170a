"""Source, IR and assembly that a build leaves."""

from __future__ import annotations

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
