"""LLVM's assembler takes each recorded instruction for the architectures that the tables say have it."""

import pytest
from triton._C.libtriton import amd, llvm

from portkit.emulate.amdgcn.architecture import ARCHITECTURES
from portkit.emulate.amdgcn.probes import body, probes_of, with_named_halves

HALVES = {"v_mov_b16"}
"""Instructions that LLVM knows only where it names halves of registers, which Triton turns off on RDNA3."""


def assembles(probe, architecture, capfd):
    lines = body(probe, ARCHITECTURES[architecture], "v[2:3]", "v[4:5]")
    text = f'.amdgcn_target "amdgcn-amd-amdhsa--{architecture}"\n.text\n' + "\n".join(lines) + "\n"
    amd.assemble_amdgcn(text, architecture, "-real-true16" if "gfx11" in architecture else "")
    return "error:" not in capfd.readouterr().err


def refusals(architecture, capfd):
    """Mnemonics of the probes that assemble neither as they are nor with names of halves."""
    llvm.init_targets()
    refused = set()
    for probe in probes_of(ARCHITECTURES[architecture]):
        forms = filter(None, (probe, with_named_halves(probe)))
        if not any(assembles(form, architecture, capfd) for form in forms):
            refused.add(probe.mnemonic)
    return refused


@pytest.mark.parametrize("architecture", ["gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1151", "gfx1200", "gfx1201"])
def test_every_probe_assembles(architecture, capfd):
    """But for scalar floats, which of RDNA3 the later chips have."""
    refused = refusals(architecture, capfd) - HALVES
    if architecture == "gfx1100":
        assert "s_add_f32" in refused
        refused = {
            name for name in refused if not (name.startswith("s_") and name.endswith(("f32", "_i32", "_u32", "_f16")))
        }
    assert not refused


def test_a_wrong_line_is_noticed(capfd):
    llvm.init_targets()
    amd.assemble_amdgcn(".text\nv_frobnicate_b32 v0, v1\n", "gfx942", "")
    assert "error: invalid instruction" in capfd.readouterr().err
