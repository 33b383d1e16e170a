"""``scripts/archived_vectors.py``: the emulator and a prototype beside an archive of an H200's results."""

import json
import zipfile

import numpy as np
import pytest
from script_modules import script_module

TEXT = """.version 8.0
.target sm_80
.address_size 64
.visible .entry twice(.param .u64 a, .param .u64 b)
.reqntid 32
{
.reg .b64 %rd<5>; .reg .b32 %r<2>; .reg .f32 %f<3>;
ld.param.b64 %rd1, [a]; ld.param.b64 %rd2, [b];
mov.u32 %r1, %tid.x;
mad.wide.s32 %rd3, %r1, 4, %rd1; mad.wide.s32 %rd4, %r1, 4, %rd2;
ld.global.f32 %f1, [%rd3];
add.rn.f32 %f2, %f1, %f1;
st.global.f32 [%rd4], %f2;
ret;
}
"""
GIVEN = np.arange(32, dtype=np.float32) + 0.5


@pytest.fixture(scope="module")
def script():
    return script_module("archived_vectors")


def archive(folder, results):
    """Of one kernel that doubles, with those results."""
    argument = {"dtype": "float32", "shape": [32]}
    arguments = [{**argument, "file": "arg0.bin", "written": False}, {**argument, "file": "arg1.bin", "written": True}]
    about = {"cap": 80, "name": "twice", "shared": 0, "warps": 1, "grid": [1], "args": arguments}
    members = {"kernel.ptx": TEXT.encode(), "meta.json": json.dumps(about).encode(), "arg0.bin": GIVEN.tobytes()}
    members |= {"arg1.bin": bytes(128), "arg1_after.bin": results.astype(np.float32).tobytes()}
    path = folder / "vectors.zip"
    with zipfile.ZipFile(path, "w") as written:
        for name, content in members.items():
            written.writestr(f"sm_80_twice/{name}", content)
    return path


def told(script, folder, results, *lines):
    comparison = folder / "comparison.txt"
    comparison.write_text("".join(f"sm_80 twice    acc={line}\n" for line in lines))
    return script.main([str(archive(folder, results)), "--prototype", str(comparison)])


def test_equal_results(script, tmp_path, capsys):
    assert told(script, tmp_path, 2 * GIVEN, "rn ['3/32 differ, max 2 f32 ulp, median 0']") == 0
    said = capsys.readouterr().out
    assert [each.strip() for each in said.splitlines()[2].split("|")[1:-1]] == [
        *("sm_80_twice", "32", "equal", "3 by at most 2", "equal")
    ]
    assert said.endswith("1 of 1 equal to the bit; the prototype 0\n")


@pytest.mark.parametrize(
    ("lines", "verdict", "code"),
    [
        (["rn ['9/32 differ, max 2 f32 ulp, median 0']"], "nearer", 0),
        (["rn ['9/32 differ, max 2 f32 ulp, median 0']", "rz ['0/32 differ, max 0 codes']"], "NOT NEARER", 1),
        (["rn ['1/32 differ, max 1 f32 ulp, median 0']"], "NOT NEARER", 1),
        ([], "NOT NEARER", 1),
    ],
)
def test_a_result_that_is_another_is_held_against_the_prototypes_best(script, tmp_path, capsys, lines, verdict, code):
    other = 2 * GIVEN
    other[7] = np.nextafter(other[7], np.float32(np.inf))
    assert told(script, tmp_path, other, *lines) == code
    row = [each.strip() for each in capsys.readouterr().out.splitlines()[2].split("|")[1:-1]]
    assert (row[2], row[4]) == ("1 by at most 1", verdict)
