from pathlib import Path

import pytest

from portkit.document import dotted
from portkit.model import (
    Axes,
    CaseSource,
    Direction,
    Evidence,
    ExclusionRule,
    Expectation,
    MatrixKernel,
    Selector,
    Status,
)
from portkit.plan.matrix import matrix_schema, read_matrix

ROOT = Path(__file__).parents[2]

MATRIX = """\
version: 1
kernels:
  softmax:
  gelu:
    path: ops/gelu.py
    shapes: [4096x4096, 17]
    dtypes: [bfloat16]
    variants: [w4, w8.2]
    directions: [forward, backward]
  rope:
    module: someones.package.rope
targets: [h200, gfx1032]
targets_files: [mine.yaml]
tiers:
  quick:
    gelu: {shapes: [17]}
    softmax:
  nightly:
expect:
  - {kernel: gelu, target: gfx1032, dtype: bfloat16, status: compiler_crash, reason: "no bf16
      there"}
exclude:
  - {target: interpreter, evidence: interpreted, variant: w4, reason: slow}
  - {kernel: gelu, shape: 17, triton: ">= 3.6, <3.8", reason: slow}
"""


@pytest.fixture
def matrix(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("matrix.yaml").write_text(MATRIX)
    return read_matrix(Path("matrix.yaml"))


def test_kernels_and_their_sources(matrix, tmp_path):
    axes = Axes(
        shapes=((4096, 4096), (17,)),
        dtypes=("bfloat16",),
        variants=("w4", "w8.2"),
        directions=(Direction.FORWARD, Direction.BACKWARD),
    )
    assert matrix.kernels == (
        MatrixKernel(CaseSource("softmax", path=str(tmp_path / "kernels/softmax.py")), Axes(), "matrix.yaml:3"),
        MatrixKernel(CaseSource("gelu", path=str(tmp_path / "ops/gelu.py")), axes, "matrix.yaml:4"),
        MatrixKernel(CaseSource("rope", module="someones.package.rope"), Axes(), "matrix.yaml:10"),
    )


def test_targets_and_tiers(matrix, tmp_path):
    assert matrix.targets == ("h200", "gfx1032")
    assert matrix.target_files == (str(tmp_path / "mine.yaml"),)
    assert matrix.tiers == {
        "quick": {"gelu": Axes(shapes=((17,),)), "softmax": Axes()},
        "nightly": {},
        "full": {},
    }


def test_rules(matrix):
    select = Selector("gelu", "gfx1032", "bfloat16")
    assert matrix.expectations == (Expectation(select, Status.COMPILER_CRASH, "no bf16 there", "matrix.yaml:20"),)
    select = Selector(target="interpreter", variant="w4", evidence=Evidence.INTERPRETED)
    by_version = Selector("gelu", shape=(17,), triton="<3.8,>=3.6")
    assert matrix.exclusions == (
        ExclusionRule(select, "slow", "matrix.yaml:23"),
        ExclusionRule(by_version, "slow", "matrix.yaml:24"),
    )


def test_places_of_values(matrix):
    assert matrix.places["kernels.gelu.shapes[1]"] == "matrix.yaml:6"
    assert matrix.places["targets[1]"] == "matrix.yaml:12"
    assert matrix.places["expect[0].status"] == "matrix.yaml:20"


def test_lists_of_rules_may_be_commented_out(tmp_path):
    path = tmp_path / "matrix.yaml"
    path.write_text("kernels: {a: }\ntargets: [h200]\ntiers:\nexpect:\n  # - {kernel: a}\nexclude:\ntargets_files:\n")
    matrix = read_matrix(path)
    assert (matrix.expectations, matrix.exclusions, matrix.target_files) == ((), (), ())
    assert matrix.tiers == {"full": {}}


def test_anchors_and_merge_keys(tmp_path):
    path = tmp_path / "matrix.yaml"
    path.write_text("kernels:\n  a: &axes\n    dtypes: [float32]\n  b:\n    <<: *axes\ntargets: [h200]\n")
    first, second = read_matrix(path).kernels
    assert first.axes == second.axes == Axes(dtypes=("float32",))


def test_schema_lists_what_is_known():
    schema = matrix_schema()
    assert schema["required"] == ["kernels", "targets"]
    assert schema["additionalProperties"] is False
    kernel = schema["$defs"]["KernelFormat"]["properties"]
    assert set(kernel) == {"path", "module", "shapes", "dtypes", "variants", "directions", "small_shapes"}
    assert "float8_e4m3fn" in kernel["dtypes"]["items"]["enum"]
    gaps = schema["$defs"]["ExpectFormat"]["properties"]["status"]["enum"]
    assert "compiler_crash" in gaps
    assert not {"passed", "built", "excluded", "backend_missing"} & set(gaps)


def test_schema_describes_every_key():
    schema = matrix_schema()
    parts = {"matrix": schema, **schema["$defs"]}
    bare = [(name, key) for name, part in parts.items() for key, value in part["properties"].items() if not told(value)]
    assert bare == []
    assert [name for name, part in parts.items() if not part.get("description")] == []


def told(value):
    return len(value.get("description", "").split()) > 1


def test_dotted():
    assert dotted(("expect", 3, "status")) == "expect[3].status"


def test_default_matrix_covers_both_vendors():
    matrix = read_matrix(ROOT / "matrix.yaml")
    assert [kernel.source.name for kernel in matrix.kernels] == ["sum_abs", "add_rms_norm", "swiglu", "softmax"]
    assert {"h200", "rtx4090", "mi300x", "rx7900xtx"} <= set(matrix.targets)
    assert len(matrix.targets) >= 14
    assert set(matrix.tiers) == {"quick", "full"}


def test_document_shows_a_matrix_that_reads_and_names_every_key(tmp_path):
    text = (ROOT / "docs/matrix.md").read_text()
    path = tmp_path / "matrix.yaml"
    path.write_text(text.split("```yaml\n")[1].split("```")[0])
    assert [kernel.source.name for kernel in read_matrix(path).kernels] == ["softmax", "add_rms_norm", "rms_norm"]
    schema = matrix_schema()
    sections = [schema, *(schema["$defs"][name] for name in ("KernelFormat", "ExpectFormat"))]
    keys = {key for section in sections for key in section["properties"]}
    gaps = set(schema["$defs"]["ExpectFormat"]["properties"]["status"]["enum"])
    assert {word for word in keys | gaps if f"`{word}`" not in text} == set()
