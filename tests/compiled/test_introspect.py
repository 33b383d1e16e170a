"""The child process that reads kernel cases, with files that print, fail and die."""

import contextlib
import os
import subprocess
import sys
import time
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
    "leaves": "import os\nprint('all is well', flush=True)\nos._exit(0)\n",
    "fatal": "import os, signal\nos.kill(os.getppid(), signal.SIGKILL)\nos.kill(os.getpid(), signal.SIGKILL)\n",
    "surrogate": "raise ValueError('\\ud800')\n",
    "odd": DECLARATION.replace("=((8, 8),), small", "=((8, 8),), limits=None, small"),
    "numbered": DECLARATION.replace('"{name}"', "5"),
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
    "leaves": ("leaves.py", "its process ended with exit code 0; it said: all is well"),
    "fatal": ("fatal.py", "its process was ended by SIGKILL"),
    "surrogate": ("surrogate.py:1", "import failed: ValueError: ?"),
    "odd": ("odd.py", "can't be read: TypeError: 'NoneType' object is not iterable"),
    "numbered": ("numbered.py", "`name` of a kernel case is 5"),
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


def test_every_kernel_is_a_case_or_a_failure(found):
    introspection = found[1]
    assert {*introspection.cases, *introspection.failures} == {*FILES, "absent"}


SIBLINGS = "import helper\n" + DECLARATION.replace("((8, 8),)", "helper.SHAPES").replace("{{", "{").replace("}}", "}")


SLEEPS = f"987.{os.getpid()}"
"""Seconds, by which a process of this run of the tests is known."""


@pytest.fixture(scope="module")
def neighbours(tmp_path_factory):
    """Two folders whose kernels import siblings of the same name; a third file of that name in the current folder."""
    base = tmp_path_factory.mktemp("neighbours")
    (base / "helper.py").write_text("SHAPES = ((9, 9),)\n")
    for folder, size in (("x", 3), ("y", 4), ("z", 5)):
        (base / folder).mkdir()
        (base / folder / "helper.py").write_text(f"SHAPES = (({size}, {size}),)\n")
        (base / folder / "k.py").write_text(SIBLINGS.replace("{name}", folder))
    (base / "z" / "platform.py").write_text("")
    (base / "z" / "k.py").write_text("import platform\n" + SIBLINGS.replace("{name}", "z"))
    sleeper = f"import subprocess\nsubprocess.Popen(['sleep', '{SLEEPS}'])\n"
    (base / "x" / "k.py").write_text(sleeper + (base / "x" / "k.py").read_text())
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(base)
        return base, introspect([CaseSource(name, path=str(base / name / "k.py")) for name in "xyz"], [])


def test_each_kernel_has_its_own_siblings(neighbours):
    assert {name: case.shapes for name, case in neighbours[1].cases.items()} == {"x": ((3, 3),), "y": ((4, 4),)}


def test_a_sibling_named_as_a_module_of_python_is_refused(neighbours):
    folder, introspection = neighbours
    error = introspection.failures["z"]
    assert error.place == str(folder / "z" / "platform.py")
    assert error.message.startswith("has the name of a module of Python")


def test_no_process_of_a_kernel_file_stays(neighbours):
    until = time.monotonic() + 5
    while (left := sleeping()) and time.monotonic() < until:
        time.sleep(0.05)  # a killed process is gone a moment later
    assert left == []


def sleeping():
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):  # it has just ended
            found.append(path.read_bytes())
    assert found
    return [each for each in found if SLEEPS.encode() in each.split(b"\0")]


@pytest.mark.parametrize("processes", [1, 3])
def test_so_many_are_read_at_once(tmp_path, monkeypatch, processes):
    """Each waits for two others to have begun; one that has none beside it gives up soon."""
    waits = """
import pathlib, time
folder = pathlib.Path(__file__).parent
(folder / "begun-{name}").touch()
until = time.monotonic() + {seconds}
while len(list(folder.glob("begun-*"))) < 3 and time.monotonic() < until: time.sleep(0.01)
assert len(list(folder.glob("begun-*"))) == 3
"""
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(processes)))
    text = (waits + DECLARATION).replace("{{", "{").replace("}}", "}")
    text = text.replace("{seconds}", "20" if processes == 3 else "0.5")
    for name in "xyz":
        (tmp_path / f"{name}.py").write_text(text.replace("{name}", name))
    found = introspect([CaseSource(name, path=str(tmp_path / f"{name}.py")) for name in "xyz"], [])
    assert list(found.cases) == (["x", "y", "z"] if processes == 3 else ["z"])


def test_one_that_is_killed_beside_others_is_asked_again_alone(tmp_path, monkeypatch):
    """As the kernel does when memory runs out: ``x`` dies the first time, ``y`` each time."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1})
    kill = "import os, pathlib, signal\nbegun = pathlib.Path(__file__ + '.begun')\n"
    kill += "if not begun.exists() or '{name}' == 'y':\n    begun.touch()\n    os.kill(os.getpid(), signal.SIGKILL)\n"
    text = (kill + DECLARATION).replace("{{", "{").replace("}}", "}")
    for name in "xy":
        (tmp_path / f"{name}.py").write_text(text.replace("{name}", name))
    found = introspect([CaseSource(name, path=str(tmp_path / f"{name}.py")) for name in "xy"], [])
    assert list(found.cases) == ["x"]
    assert "ended by SIGKILL" in found.failures["y"].message


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


def test_words_beyond_ascii_in_any_locale(tmp_path):
    (tmp_path / "k.py").write_text("raise ValueError('größer als 4 µs')\n", encoding="utf-8")
    ask = (
        "import sys\nfrom portkit.model import CaseSource\nfrom portkit.plan.cases import introspect\n"
        "found = introspect([CaseSource('k', path=sys.argv[1])], [])\n"
        "print(ascii(found.failures['k'].message))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", ask, str(tmp_path / "k.py")],
        env={**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == ascii("import failed: ValueError: größer als 4 µs")


def test_package_that_is_not_installed():
    from portkit.run.introspect import _import

    with pytest.raises(HostError, match="torchless is not installed") as caught:
        _import("torchless")
    assert "portkit[run]" in caught.value.remedy
