"""Launches that are kept, so that an equal one is not executed again."""

import platform
import resource

import numpy as np
import ptx_text
import pytest

from portkit.emulate import KeptLaunches, Options, Pointer, kept
from portkit.emulate.ptx.launch import takes

ADDS_SEVEN = "\n".join([ptx_text.load(0, 1, 1), "add.u32 %r2, %r1, 7;", ptx_text.store(1, 2, 1)])


@pytest.fixture
def launches(tmp_path):
    return KeptLaunches(tmp_path / "launches")


@pytest.fixture
def executed(monkeypatch):
    """Architectures of the launches that were executed."""
    ran, run = [], kept.run
    monkeypatch.setattr(
        kept, "run", lambda text, architecture, *rest: ran.append(architecture) or run(text, architecture, *rest)
    )
    return ran


def launch(launches, lines=ADDS_SEVEN, *, target="sm_90a", first=0, options=None):
    """What a launch left in its second buffer, and the emulation."""
    given, out = np.arange(first, first + 32, dtype=np.uint32), np.zeros(32, np.uint32)
    text = ptx_text.text(lines, target=target)
    done = launches.run(text, target.rstrip("a"), (1,), [given, out], None, 0, options or Options())
    return out, done


def test_an_equal_launch_is_not_executed_and_leaves_the_same(launches, executed):
    (first, done), (again, taken) = launch(launches), launch(launches)
    assert executed == ["sm_90"]
    assert launches.taken == 1
    assert first.tolist() == again.tolist() == list(range(7, 39))
    assert (taken.outcome, taken.counts.lane_instructions) == (done.outcome, done.counts.lane_instructions)


def test_architectures_share_a_text_without_products(launches, executed):
    outs = [launch(launches, target=target)[0].tolist() for target in ("sm_75", "sm_89", "sm_120a")]
    assert executed == ["sm_75"]
    assert outs == [list(range(7, 39))] * 3


PRODUCT = """
mov.u32 %r1, 0; mov.u32 %r2, 0; mov.u32 %r3, 0;
mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%r4,%r5,%r6,%r7}, {%r1,%r2}, {%r3}, {%r1,%r1,%r1,%r1};
"""


def test_products_are_shared_within_a_generation(launches, executed):
    for target in ("sm_80", "sm_86", "sm_89", "sm_90a", "sm_100a", "sm_103a", "sm_120a"):
        _, done = launch(launches, PRODUCT, target=target)
        assert done.outcome.status == "passed", done.outcome
    assert executed == ["sm_80", "sm_90", "sm_100", "sm_120"]


def test_other_memory_values_and_orders_are_other_launches(launches, executed):
    launch(launches)
    launch(launches, first=5)
    launch(launches, options=Options(seed=3))
    launch(launches, ADDS_SEVEN.replace("7;", "8;"))
    assert len(executed) == 4
    assert launches.taken == 0


def test_a_launch_with_a_finding_is_executed_each_time(launches, executed):
    beyond = ADDS_SEVEN.replace("[%rd21+0], %r2", "[%rd21+4], %r2")
    for _ in range(2):
        _, done = launch(launches, beyond)
        assert done.findings
    assert len(executed) == 2


def test_which_bytes_are_written_is_kept_too(launches, executed):
    text = ptx_text.text(ADDS_SEVEN)
    for _ in range(2):
        written = np.zeros(256, np.bool_)
        out = Pointer(np.zeros(256, np.uint8), written=written)
        launches.run(text, "sm_90", (1,), [np.zeros(32, np.uint32), out], None, 0, Options())
        assert written.tolist() == [True] * 128 + [False] * 128
    assert executed == ["sm_90"]


def test_buffers_that_overlap_are_another_launch(launches, executed):
    text, both = ptx_text.text(ADDS_SEVEN), np.zeros(33, np.uint32)
    for out in (np.zeros(32, np.uint32), both[1:], both[1:]):
        both[:] = 0
        launches.run(text, "sm_90", (1,), [both[:32], out], None, 0, Options())
    assert len(executed) == 2
    assert both.tolist() == [0] + [7] * 32


@pytest.mark.parametrize("left", [b"", b"PK\x03\x04"])
def test_a_damaged_file_counts_as_none(launches, executed, left):
    launch(launches)
    (path,) = launches.folder.rglob("*.npz")
    path.write_bytes(left)
    out, _ = launch(launches)
    assert len(executed) == 2
    assert out.tolist() == list(range(7, 39))


def test_a_folder_that_cannot_be_written_keeps_nothing(tmp_path, executed):
    (tmp_path / "file").touch()
    for _ in range(2):
        launch(KeptLaunches(tmp_path / "file"))
    assert len(executed) == 2


@pytest.mark.parametrize(
    ("line", "since"),
    [
        ("cvt.rn.satfinite.e4m3x2.f32 %h1, %r1, %r1;", 89),
        ("max.f32 %r2, %r1, %r1;", 0),
        ("max.f32 %r2, %r1, %r1, %r1;", 100),
        ("redux.sync.min.f32 %r2, %r1, -1;", 100),
        ("add.u32 %r2, %r1, 7; tcgen05.wait::st.sync.aligned;", 100),
    ],
)
@pytest.mark.parametrize("target", ["sm_75", "sm_80", "sm_89", "sm_90", "sm_100"])
def test_an_architecture_takes_what_it_has(line, since, target):
    text = ptx_text.text(line, target=target)
    assert takes(text, target) == (int(target[3:]) >= since)
    assert takes(text, "sm_86") is False


def test_the_oldest_launches_go_where_there_are_too_many(tmp_path, executed):
    launches = KeptLaunches(tmp_path, most_bytes=8 << 10)
    for first in range(40):
        launch(launches, first=first)
    size = sum(path.stat().st_size for path in tmp_path.rglob("*.npz"))
    assert 0 < size <= (8 << 10) + (2 << 10)
    launch(launches, first=39)
    assert len(executed) == 40
    launch(launches, first=0)
    assert len(executed) == 41


SINCE_80 = ADDS_SEVEN.replace("add.u32 %r2, %r1, 7;", "redux.sync.add.u32 %r2, %r1, -1;")


@pytest.mark.parametrize("before", [(), ("sm_90a",)])
def test_what_an_architecture_lacks_is_refused_whatever_was_kept(launches, before):
    for target in before:
        assert launch(launches, SINCE_80, target=target)[1].outcome.status == "passed"
    out, done = launch(launches, SINCE_80, target="sm_75")
    assert "sm_75 has no redux" in done.outcome.message
    assert not out.any()


@pytest.mark.parametrize("before", [(), ("sm_90", "sm_80")])
def test_a_text_for_another_architecture_is_refused_whatever_was_kept(launches, before):
    for architecture in (*before, "sm_80"):
        values = [np.zeros(32, np.uint32), np.zeros(32, np.uint32)]
        done = launches.run(ptx_text.text(ADDS_SEVEN), architecture, (1,), values, None, 0, Options())
    assert done.outcome.message.endswith("the text is for sm_90, not for sm_80")
    assert launches.taken == 0


def test_a_full_disk_leaves_nothing(launches):
    """A file may have 64 bytes, which is less than one launch needs."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (64, hard))
    try:
        out, _ = launch(launches)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert out.tolist() == list(range(7, 39))
    assert launches.folder.is_dir()
    assert [path for path in launches.folder.rglob("*") if path.is_file()] == []


def test_another_python_or_other_lanes_of_numpy_are_another_emulator(monkeypatch):
    digests = [kept.emulator_digest(), kept.emulator_digest()]
    monkeypatch.setattr(platform, "python_version", lambda: "3.0.0")
    digests.append(kept.emulator_digest())
    monkeypatch.setattr(np, "show_config", lambda mode: {"SIMD Extensions": {"found": ["one"]}})
    digests.append(kept.emulator_digest())
    assert digests[0] == digests[1]
    assert len(set(digests)) == 3
