"""The child process that reads kernel cases, with files that print, fail and die."""

import os
import sys
from pathlib import Path

import pytest

from portkit.errors import CaseError, HostError
from portkit.model import CaseSource, Direction
from portkit.plan.cases import introspect

DECLARATION = """
from portkit import KernelCase, Work
def fused(x, num_warps): return x
case = KernelCase(
    name="{name}", fused=fused, reference=lambda x: x, inputs=lambda make, shape, dtype: {{}},
    work=lambda shape, dtype: Work(2, 4, 1), shapes=((8, 8),), small_shapes=((2, 2),), dtypes=("float32",),
    variants={{"w8": {{"num_warps": 8}}}},
)
"""
FILES = {
    "good": 'print(\'{"name": "good"}\')\n' + DECLARATION,
    "syntax": "x = 1\ny = = 2\n",
    "raises": "import torch\n\nraise RuntimeError('no luck')\n",
    "nothing": "x = 1\n",
    "other": DECLARATION.replace("{name}", "another"),
    "doubled": DECLARATION + DECLARATION.replace("case =", "second ="),
    "field": DECLARATION.replace("((8, 8),)", "()"),
    "exits": "import os\nprint('good bye', flush=True)\nos._exit(3)\n",
    "segfault": "import ctypes\n\nctypes.string_at(0)\n",
    "hangs": "import time\n\ntime.sleep(100)\n",
    "device": "import torch\nimport triton\n\n"
    "assert torch.cuda.get_device_properties(0).multi_processor_count > 1\n"
    "DEVICE = triton.runtime.driver.active.get_active_torch_device()\n" + DECLARATION,
}


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cases")
    for name, text in FILES.items():
        (folder / f"{name}.py").write_text(text.replace("{{", "{").replace("}}", "}").replace("{name}", name))
    sources = [CaseSource(name, path=str(folder / f"{name}.py")) for name in FILES]
    sources.append(CaseSource("absent", path=str(folder / "absent.py")))
    return folder, introspect(sources, [], case_seconds=4)


def test_host_is_the_one_that_runs_this(found):
    host = found[1].host
    assert host.python.startswith(f"{sys.version_info.major}.{sys.version_info.minor}")
    assert {"amd", "nvidia"} <= set(host.backends)


def test_good_cases_are_read_beside_broken_ones(found):
    _, introspection = found
    assert list(introspection.cases) == ["good", "device"]
    good = introspection.cases["good"]
    assert good.shapes == ((8, 8),)
    assert good.variants == {"w8": {"num_warps": 8}}
    assert good.directions == (Direction.FORWARD,)


FAILURES = {
    "syntax": ("syntax.py:2", "import failed: SyntaxError"),
    "raises": ("raises.py:3", "import failed: RuntimeError: no luck"),
    "nothing": ("nothing.py", "declares no kernel case"),
    "other": ("other.py", "declares no kernel case named 'other'"),
    "doubled": ("doubled.py", "declares two kernel cases named 'doubled'"),
    "field": ("field.py: field.shapes", "is empty"),
    "exits": ("exits.py", "its process ended with exit code 3; it said: good bye"),
    "segfault": ("segfault.py:3", "its process was ended by SIGSEGV"),
    "hangs": ("hangs.py:3", "it took more than 4 s"),
    "absent": ("absent.py", "no such kernel file"),
}


@pytest.mark.parametrize(("name", "place", "message"), [(name, *rest) for name, rest in FAILURES.items()])
def test_failure_names_file_and_line(found, name, place, message):
    folder, introspection = found
    error = introspection.failures[name]
    assert isinstance(error, CaseError)
    assert error.place == str(folder / place)
    assert message in error.message
    assert error.remedy


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("raise OSError('libcudart.so.12: cannot open')", "torch does not import: OSError: libcudart.so.12"),
        ("import os; os._exit(4)", "ended with exit code 4"),
    ],
)
def test_torch_that_does_not_import(tmp_path, monkeypatch, text, message):
    Path(tmp_path, "torch.py").write_text(text)
    paths = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), *filter(None, paths)]))
    with pytest.raises(HostError, match=message) as caught:
        introspect([CaseSource("good", path="/none.py")], [])
    assert "portkit doctor" in caught.value.remedy


def test_package_that_is_not_installed():
    from portkit.run.introspect import _import

    with pytest.raises(HostError, match="torchless is not installed") as caught:
        _import("torchless")
    assert "portkit[run]" in caught.value.remedy
