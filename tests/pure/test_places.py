"""Where kernels stand in a repository."""

from __future__ import annotations

import pytest

from portkit.plan.places import Place, kernel_places, repository

KERNEL = '''"""A case."""
import triton

@triton.jit
def _helper(x):
    return x

@triton.jit
def _softmax(x):
    return _helper(x)

def fused(x):
    return x

CASE = KernelCase(
    name="softmax",
    fused=fused,
)
'''


@pytest.fixture
def matrix(tmp_path):
    (tmp_path / ".git").mkdir()
    folder = tmp_path / "gpu"
    (folder / "kernels").mkdir(parents=True)
    (folder / "kernels" / "softmax.py").write_text(KERNEL)
    (folder / "kernels" / "broken.py").write_text("def (")
    path = folder / "matrix.yaml"
    path.write_text("kernels:\n  softmax:\n  broken:\n  gone:\ntargets: [h200]\n")
    return path


def test_files_are_named_from_the_root_of_the_repository(matrix):
    places = kernel_places(matrix)["softmax"]
    assert places.case == Place("gpu/kernels/softmax.py", 15)
    assert places.of(["_unknown", "_softmax"]) == Place("gpu/kernels/softmax.py", 9)
    assert places.of(["_unknown"]) == places.case


def test_a_kernel_whose_file_is_no_use_stands_at_its_line_of_the_matrix(matrix):
    places = kernel_places(matrix)
    assert places["broken"].case == Place("gpu/matrix.yaml", 3)
    assert places["gone"].case == Place("gpu/matrix.yaml", 4)


def test_a_kernel_outside_the_repository_stands_in_the_matrix(matrix, tmp_path_factory):
    elsewhere = tmp_path_factory.mktemp("other") / "rope.py"
    elsewhere.write_text(KERNEL)
    matrix.write_text(f"kernels:\n  softmax:\n    path: {elsewhere}\ntargets: [h200]\n")
    assert kernel_places(matrix)["softmax"].case == Place("gpu/matrix.yaml", 2)


def test_without_a_repository_the_matrixs_folder_is_the_root(tmp_path):
    path = tmp_path / "deep" / "matrix.yaml"
    path.parent.mkdir()
    assert repository(path) == path.parent.resolve()
