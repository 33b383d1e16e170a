"""Every instruction entry has tests of its own or stands in a list, and docs/emulation-instructions.md says so."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("numpy", reason="the emulator needs NumPy")

from portkit.emulate.amdgcn.isa.lookup import all_entries

SCRIPT = Path(__file__).parents[2] / "scripts" / "instruction_table.py"

WITHOUT_NUMBER = {
    "CDNA2 ISA, Matrix Arithmetic Instructions",
    "CDNA2 ISA, VOP2 and VOP3A",
    "CDNA3 ISA, Memory Buffer Load to LDS",
}
"""Sections that are named by their titles alone."""


def test_entries_and_page():
    done = subprocess.run([sys.executable, str(SCRIPT), "--check"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


FORGETFUL = """
import sys
sys.path.insert(0, {folder!r})
import instruction_table as table
modules = {{name: {{"test_isa_vector.py"}} for name in table.all_entries()}}
del modules["v_add_f32"]
sys.exit("\\n".join(table.complaints(modules)))
"""


def test_entry_without_a_test_is_named():
    code = FORGETFUL.format(folder=str(SCRIPT.parent))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.splitlines()[0] == "v_add_f32: no test of its own (tests/pure/test_isa_*.py)"
    assert "the page is out of date" in done.stderr


def test_every_entry_names_document_and_section():
    """By number, but for those above; of CDNA's and RDNA's, those that its generations read."""
    for name, entry in all_entries().items():
        parts = entry.source.split("; ")
        assert all(re.match(r"R?C?DNA[0-9.]+ ISA \d+\.\d+", part) or part in WITHOUT_NUMBER for part in parts), (
            name,
            parts,
        )
        families = {part[:4] for part in parts}
        assert families == {generation.value[:4] for generation in entry.generations}, (name, parts)
