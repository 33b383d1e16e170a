"""What a binary provably lacks: texts as LLVM writes them, and a code object with an open call."""

from __future__ import annotations

import pytest

from portkit.run.miscompiled import missing_parts

CALL = '  %9 = tail call float asm {flags}"{text}", "{constraints}"(float %8) #3, !dbg !16\n'


def llir(text, constraints="=f,f", flags=""):
    return CALL.format(text=text, constraints=constraints, flags=flags)


def ptx(*texts):
    blocks = "".join(f"\t// begin inline asm\n\t{text}\n\t// end inline asm\n" for text in texts)
    return f".visible .entry k()\n{{\n{blocks}\tret;\n}}\n"


LOAD = llir("mov.u32 $0, 0x0;\\0A\\09ld.global.b32 {{ $0 }}, [ $1 + 0 ];", "=r,l", "sideeffect ")
LOADED = "mov.u32 %r1, 0x0;\n\tld.global.b32 { %r1 }, [ %rd1 + 0 ];"
TANH = llir("tanh.approx.f32 $0, $1;", "=v,v")

WHOLE = {
    "no assembly": ("  ret void\n", ptx()),
    "there": (TANH + LOAD, ptx(LOADED, "tanh.approx.f32 %f1, %f2;")),
    "lines apart": (LOAD, ptx(LOADED.replace("\n\tld", "\n\t.loc\t1 8 9                           // k.py:8:9\n\tld"))),
    "nothing to find": (llir("", "~{{memory}}", "sideeffect "), ptx()),
    "a dollar": (llir("mov.b32 $0, $$4;"), ptx("mov.b32 %r1, $4;")),
    "a modifier": (llir("lop3_${{:uid}}: mov.b32 ${{0:r}}, $1;"), ptx("lop3_17: mov.b32 %r1, %r2;")),
    "alternatives": (llir("$(add$|sub$) $0, $1"), ptx("add %r1, %r2")),
}


@pytest.mark.parametrize(("ir", "final"), WHOLE.values(), ids=WHOLE)
def test_what_is_there_lacks_nothing(ir, final):
    assert missing_parts({"llir": ir, "ptx": final}, b"") == ()


def test_a_text_that_is_in_the_ir_alone_is_lost():
    (text,) = missing_parts({"llir": TANH + TANH + LOAD, "ptx": ptx(LOADED)}, b"")
    assert text == (
        "inline assembly 'tanh.approx.f32 $0, $1;' is not in the ptx: "
        "the compiler dropped it and left its result undefined"
    )


def test_the_words_outside_marked_blocks_do_not_count():
    ir = llir("mov.u64 $0, $1;", "=v,v")
    assert len(missing_parts({"llir": ir, "ptx": ptx() + "\tmov.u64 %rd1, %rd2;\n"}, b"")) == 1


def test_a_long_text_is_shortened():
    (text,) = missing_parts({"llir": llir("word " * 40), "ptx": ptx()}, b"")
    assert "word word…'" in text
    assert len(text) < 160


def test_an_older_stage_alone_proves_nothing():
    assert missing_parts({"ttir": "tt.elementwise_inline_asm"}, b"") == ()
