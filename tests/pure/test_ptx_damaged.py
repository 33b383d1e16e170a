"""PTX that was edited by hand: a named status with the line, and no exception."""

import pytest

pytest.importorskip("numpy", reason="the emulator needs NumPy")

import numpy as np
import ptx_text

GOOD = ptx_text.text(f"{ptx_text.load(0, 0, 1)}\nadd.u32 %r10, %r0, 1;\n{ptx_text.store(1, 10, 1)}")


def outcome(text):
    return ptx_text.launch(text, *(np.zeros(64, np.uint32) for _ in range(6))).outcome


def test_the_good_text_runs():
    assert outcome(GOOD).status == "passed"


@pytest.mark.parametrize(
    ("old", "new", "cause"),
    [
        ("[p4]", "[]", "`ld.param.u64 %rd4, []`: can't be read"),
        ("[%rd21+0]", "[%rd21+09]", "can't be read"),
        ("%h<20>", "%h<20>x<3>", "can't be read"),
        ("%h<20>", "%h<99999999999>", "bytes of registers of a thread: 199999999998"),
        ("ret;\n}", "}", "the code of kernel runs past its end; is a ret missing?"),
        ("ret;\n}", "@%p1 ret;\n}", "the code of kernel runs past its end; is a ret missing?"),
        ("ret;\n}", "bra $Lend;\nret;\n$Lend:\n}", "`ret`: the code runs past its end"),
        (
            ".reg .pred",
            ".shared .align 16 .b8 huge[999999999999];\n.reg .pred",
            "bytes of .shared variables: 999999999999",
        ),
        (".reg .pred", ".local .b8 huge[999999999];\n.reg .pred", "bytes of .local variables: 999999999"),
        (".reg .pred", ".shared .b8 less[-4];\n.reg .pred", "directive .shared"),
        (".reg .pred", ".shared .align 99999999999 .b8 far[4];\n.reg .pred", "alignment: 99999999999"),
        (".param .u64 p2", ".param .align 16 .b8 p2[99999999]", "bytes of parameters: 100000015"),
        ("%r0, 1;", "%r0, 99999999999999999999;", "constant 99999999999999999999 of more than 64 bits"),
        ("[%rd21+0]", "[%rd21+99999999999999999999]", "can't be read"),
        ("%r0, 1;", f"{'{' * 1500}%r0{'}' * 1500}, 1;", "can't be read: maximum recursion depth"),
        (".param .u64 p2", ".param .u6x p2", "can't be read"),
        (".param .u64 p2", ".param .u64 p1", "can't be read"),
    ],
)
def test_damage(old, new, cause):
    assert old in GOOD
    found = outcome(GOOD.replace(old, new, 1))
    assert found.status in ("unsupported", "launch_error")
    assert cause in found.message


def test_a_function_that_is_not_there():
    call = "{ .param .b64 a; .param .b64 r; st.param.b64 [a], 16; call.uni (r), malloc, (a); }\nret;\n}"
    found = outcome(GOOD.replace("ret;\n}", call))
    assert (found.status, "malloc is not in the text" in found.message) == ("unsupported", True)
