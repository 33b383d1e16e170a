import importlib
import sys

import pytest

from portkit.errors import CaseError
from portkit.model import CaseSource
from portkit.run.source_hash import source_hash

KERNEL = '''\
"""Softmax."""
import helper
from tools import scale
import numpy

EPSILON = 1e-6


def softmax(x, num_warps=8):
    """Of rows."""
    return helper.run(x, EPSILON)


case = KernelCase(name="softmax", fused=softmax, shapes=((8, 8),), variants={"w8": {}}, limits={"float32": 0.1})
'''


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "tools").mkdir()
    files = {
        "softmax.py": KERNEL,
        "helper.py": "import deeper\ndef run(x, y): return x\n",
        "deeper.py": "A = 1\n",
        "other.py": "A = 1\n",
        "tools/__init__.py": "from .scaling import factor as scale\nfrom .rest import thing\n",
        "tools/scaling.py": "factor = 2\n",
        "tools/rest.py": "thing = 2\n",
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    return tmp_path


def edited(folder, name, old, new):
    """Hashes before and after a change of one file."""
    source = CaseSource("softmax", path=str(folder / "softmax.py"))
    before, text = source_hash(source), (folder / name).read_text()
    assert old in text
    (folder / name).write_text(text.replace(old, new))
    return before, source_hash(source)


KEPT = {
    "comment": ("softmax.py", "EPSILON = 1e-6", "# why\nEPSILON  =  1e-6  # small"),
    "blank lines": ("softmax.py", "\n\n", "\n\n\n\n"),
    "docstring": ("softmax.py", "Of rows.", "Over the rows."),
    "docstring removed": ("softmax.py", '    """Of rows."""\n', ""),
    "axes of the case": ("softmax.py", "((8, 8),)", "((8, 8), (9, 9))"),
    "a file that it does not import": ("other.py", "1", "2"),
    "a module that it does not import": ("tools/rest.py", "2", "3"),
}
CHANGED = {
    "constant": ("softmax.py", "1e-6", "1e-5"),
    "type of a constant": ("deeper.py", "1", "True"),
    "default": ("softmax.py", "num_warps=8", "num_warps=4"),
    "limit": ("softmax.py", "0.1", "0.2"),
    "file that it imports": ("helper.py", "return x", "return y"),
    "file that this imports": ("deeper.py", "1", "2"),
    "where a package takes a name from": ("tools/scaling.py", "2", "3"),
    "another package": ("softmax.py", "import numpy", "import pytest"),
}


@pytest.mark.parametrize(("name", "old", "new"), KEPT.values(), ids=KEPT)
def test_kept(folder, name, old, new):
    before, after = edited(folder, name, old, new)
    assert after == before


@pytest.mark.parametrize(("name", "old", "new"), CHANGED.values(), ids=CHANGED)
def test_changed(folder, name, old, new):
    before, after = edited(folder, name, old, new)
    assert after != before


def test_place_and_name_of_the_file_do_not_count(folder, tmp_path):
    before = source_hash(CaseSource("softmax", path=str(folder / "softmax.py")))
    moved = tmp_path / "moved"
    moved.mkdir()
    for path in [*folder.glob("*.py"), folder / "tools"]:
        path.rename(moved / path.name)
    (moved / "softmax.py").rename(moved / "renamed.py")
    assert source_hash(CaseSource("softmax", path=str(moved / "renamed.py"))) == before


def test_installed_module(folder, monkeypatch):
    monkeypatch.syspath_prepend(str(folder))
    importlib.invalidate_caches()
    (folder / "tools/case.py").write_text("from tools import scale\nimport other\n")
    source = CaseSource("softmax", module="tools.case")
    before = source_hash(source)
    (folder / "other.py").write_text("A = 3\n")  # another top-level package, without a version
    assert source_hash(source) == before
    (folder / "tools/scaling.py").write_text("factor = 5\n")
    assert source_hash(source) != before
    assert "tools.case" not in sys.modules  # nothing is imported


def test_import_cycles_end(folder):
    (folder / "deeper.py").write_text("import helper\n")
    (folder / "tools/__init__.py").write_text("from tools import scale\nfrom .scaling import factor\n")
    assert source_hash(CaseSource("softmax", path=str(folder / "softmax.py")))


def test_sibling_that_is_not_python(folder):
    (folder / "helper.py").write_text("x = 1\ny = = 2\n")
    with pytest.raises(CaseError, match="is not Python") as caught:
        source_hash(CaseSource("softmax", path=str(folder / "softmax.py")))
    assert caught.value.place == f"{folder / 'helper.py'}:2"


def test_module_that_is_not_installed():
    with pytest.raises(CaseError, match="no module named 'nobodys_kernels' is installed") as caught:
        source_hash(CaseSource("softmax", module="nobodys_kernels.softmax"))
    assert caught.value.place == "nobodys_kernels.softmax"
