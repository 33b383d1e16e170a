"""Matrix files that are refused: each with its line, its key and a remedy."""

import pytest

from portkit.errors import MatrixError
from portkit.plan.matrix import check_kernel_files, read_matrix

GOOD = "kernels:\n  softmax:\n  gelu:\ntargets: [h200, mi300x]\n"


@pytest.fixture
def refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "matrix.yaml"

    def error_of(text):
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        with pytest.raises(MatrixError) as caught:
            read_matrix(path)
        return caught.value

    return error_of


FILES = {
    "empty": ("", "matrix.yaml", "the file is empty", "`kernels:` and `targets:`"),
    "only comments": ("# later\n", "matrix.yaml", "the file is empty", "`kernels:` and `targets:`"),
    "not YAML": ("kernels:\n  a: [b\n", "matrix.yaml:3", "is not YAML", "brackets"),
    "tab": ("kernels:\n\ta:\n", "matrix.yaml:2", "is not YAML", "indentation"),
    "two documents": ("a: 1\n---\nb: 1\n", "matrix.yaml:2", "is not YAML", "check"),
    "control character": ("a: 1\nb: \x01\n", "matrix.yaml:2", "is not YAML", "control character"),
    "not UTF-8": (b"a: 1\nb: \xff\n", "matrix.yaml:2", "is not UTF-8", "UTF-8"),
    "nested without end": ("a: " + "[" * 500 + "]" * 500, "matrix.yaml:1", "more than 50 deep", "brackets"),
    "wrong tag": ("a: !!set b\n", "matrix.yaml", "is not YAML", "tags"),
    "a list": ("- softmax\n", "matrix.yaml:1", "must be a mapping", "`kernels:`"),
    "doubled key": ("kernels:\n  a:\n  b:\n  a:\n", "matrix.yaml:4", "key 'a' is there twice", "remove one"),
    "no kernels": ("targets: [h200]\n", "matrix.yaml:1", "`kernels` is missing", "add `kernels:`"),
    "no targets": ("kernels: {a: }\n", "matrix.yaml:1", "`targets` is missing", "add `targets:`"),
}


@pytest.mark.parametrize(("text", "place", "message", "remedy"), FILES.values(), ids=FILES)
def test_file(refused, text, place, message, remedy):
    error = refused(text)
    assert error.place == place
    assert message in error.message
    assert remedy in error.remedy


def kernel(body):
    return f"kernels:\n  softmax:\n    {body}\ntargets: [h200]\n"


def rule(body, section="expect"):
    return f"{GOOD}{section}:\n  - {{{body}}}\n"


VALUES = {
    "unknown key": (GOOD + "target: [h200]\n", "5: target", "unknown key 'target'", "targets"),
    "unknown key of a kernel": (kernel("dtype: [float32]"), "3: kernels.softmax.dtype", "unknown key", "dtypes"),
    "unknown key of a tier": (
        GOOD + "tiers: {quick: {gelu: {shape: [1]}}}\n",
        "5: tiers.quick.gelu.shape",
        "unknown key",
        "shapes",
    ),
    "unknown key of a rule": (rule("kernal: gelu, status: timeout, reason: x"), "6: expect[0].kernal", "key", "kernel"),
    "unknown key like no other": (
        rule("kernel: gelu, status: timeout", "exclude"),
        "6: exclude[0].status",
        "unknown key",
        "known: direction",
    ),
    "version": ("version: 2\n" + GOOD, "1: version", "format version 2 is unknown", "`version: 1`"),
    "version as text": ("version: '1'\n" + GOOD, "1: version", "must be a whole number, not text", "`version: 1`"),
    "kernels a list": ("kernels: [a]\ntargets: [h200]\n", "1: kernels", "must be a mapping, not a list", "key: value"),
    "kernel a text": (
        "kernels: {a: b}\ntargets: [h200]\n",
        "1: kernels.a",
        "must be a mapping, not text",
        "key: value",
    ),
    "no kernel": ("kernels: {}\ntargets: [h200]\n", "1: kernels", "is empty", "at least one"),
    "kernel's name": ("kernels:\n  Gelu:\ntargets: [h200]\n", "2: kernels.Gelu", "is no kernel name", "lower-case"),
    "path and module": (
        kernel("{path: a.py, module: a}"),
        "2: kernels.softmax",
        "both `path` and `module`",
        "keep the",
    ),
    "dtypes a text": (kernel("dtypes: float32"), "3: kernels.softmax.dtypes", "must be a list, not text", "[a, b]"),
    "empty list": (kernel("dtypes: []"), "3: kernels.softmax.dtypes", "is empty", "remove the key"),
    "null list": (kernel("dtypes:"), "3: kernels.softmax.dtypes", "has no value", "remove the key"),
    "unknown dtype": (
        kernel("dtypes: [float32,\n      bf16]"),
        "4: kernels.softmax.dtypes[1]",
        "unknown dtype 'bf16'",
        "bfloat16",
    ),
    "doubled entry": (
        kernel("shapes: [8x8,\n      4x4,\n      8x8]"),
        "5: kernels.softmax.shapes[2]",
        "8x8 is listed twice",
        "remove one",
    ),
    "unknown direction": (kernel("directions: [back]"), "3: kernels.softmax.directions[0]", "direction", "backward"),
    "variant's name": (kernel("variants: [w-8]"), "3: kernels.softmax.variants[0]", "'w-8' is no variant", "letters"),
    "no target": ("kernels: {a: }\ntargets: []\n", "2: targets", "is empty", "at least one"),
    "target's name": ("kernels: {a: }\ntargets: [H200]\n", "2: targets[0]", "'H200' is no target name", "lower-case"),
    "interpreter listed": ("kernels: {a: }\ntargets: [interpreter]\n", "2: targets[0]", "always there", "remove it"),
    "kernel of a tier": (GOOD + "tiers:\n  quick:\n    gelo:\n", "7: tiers.quick.gelo", "kernel 'gelo'", "gelu"),
    "kernel of a rule": (rule("kernel: gelo, status: timeout, reason: x"), "6: expect[0].kernel", "'gelo'", "gelu"),
    "target of a rule": (rule("target: mi300, reason: x", "exclude"), "6: exclude[0].target", "'mi300'", "mi300x"),
    "dtype of a rule": (rule("dtype: fp16, reason: x", "exclude"), "6: exclude[0].dtype", "dtype 'fp16'", "float16"),
    "status": (
        rule("kernel: gelu, status: crash, reason: x"),
        "6: expect[0].status",
        "status 'crash'",
        "compiler_crash",
    ),
    "good status": (rule("kernel: gelu, status: passed, reason: x"), "6: expect[0].status", "no gap", "goes wrong"),
    "skipped status": (rule("kernel: gelu, status: excluded, reason: x"), "6: expect[0].status", "no gap", "`exclude`"),
    "evidence": (rule("evidence: measure, reason: x", "exclude"), "6: exclude[0].evidence", "'measure'", "measured"),
    "no reason": (rule("kernel: gelu, status: timeout"), "6: expect[0]", "`reason` is missing", "add `reason:`"),
    "no status": (rule("kernel: gelu, reason: x"), "6: expect[0]", "`status` is missing", "add `status:`"),
    "blank reason": (rule("kernel: gelu, status: timeout, reason: ' '"), "6: expect[0].reason", "is blank", "one word"),
    "shape of a rule": (
        rule("shape: 8 x 8, status: timeout, reason: x"),
        "6: expect[0].shape",
        "no shape",
        "4096x4096",
    ),
    "no range": (rule("triton: '3.7', status: timeout, reason: x"), "6: expect[0].triton", "no range of", "'<3.7'"),
    "number as range": (rule("triton: 3.7, reason: x", "exclude"), "6: exclude[0].triton", "must be text", "quotes"),
    "any version": (rule("triton: '', status: timeout, reason: x"), "6: expect[0].triton", "no range of", "'<3.7'"),
    "empty range": (rule("triton: '>=3.8,<3.7', reason: x", "exclude"), "6: exclude[0].triton", "no version", "'<3.7'"),
    "evidence that no plan has": (
        rule("evidence: simulated, reason: x", "exclude"),
        "6: exclude[0].evidence",
        "unknown evidence 'simulated'",
        "emulated",
    ),
    "long reason": (
        rule(f"kernel: gelu, status: timeout, reason: {'why ' * 126}"),
        "6: expect[0].reason",
        "has 503 characters",
        "500 at most",
    ),
    "long reason of an exclusion": (
        rule(f"kernel: gelu, reason: {501 * 'x'}", "exclude"),
        "6: exclude[0].reason",
        "has 501 characters",
        "500 at most",
    ),
    "long name": (
        kernel(f"variants: [{101 * 'w'}]"),
        "3: kernels.softmax.variants[0]",
        "101 characters",
        "100 at most",
    ),
    "surrogate in a path": (kernel(r'path: "\ud800.py"'), "3: kernels.softmax.path", "surrogate", "remove it"),
    "NUL in a file's name": (
        GOOD + 'targets_files: ["\\0"]\n',
        "5: targets_files[0]",
        "control character",
        "remove it",
    ),
    "escape in a reason": (
        rule(r'kernel: gelu, reason: "a\e[31mb"', "exclude"),
        "6: exclude[0].reason",
        "control",
        "it",
    ),
    "key that is a number": (GOOD + "5: x\n", "5: 5", "a key must be text, not a number", "in quotes"),
    "kernel that is a number": ("kernels: {5: }\ntargets: [h200]\n", "1: kernels.5", "not a number", "in quotes"),
    "key that is a list": ("kernels: {[a, b]: }\ntargets: [h200]\n", "1: kernels", "text, not a list", "write a name"),
    "capital key": (
        GOOD.replace("kernels", "Kernels"),
        "1: Kernels",
        "unknown key 'Kernels' (other mistakes at line 1)",
        "did you mean kernels",
    ),
    "huge shape": (kernel(f"shapes: [8x{10**18}]"), "3: kernels.softmax.shapes[0]", "is no shape", "18 digits"),
    "rule for everything": (rule("reason: x", "exclude"), "6: exclude[0]", "selects every cell", "at least one of"),
}


@pytest.mark.parametrize(("text", "place", "message", "remedy"), VALUES.values(), ids=VALUES)
def test_value(refused, text, place, message, remedy):
    error = refused(text)
    assert error.place == f"matrix.yaml:{place}"
    assert message in error.message
    assert remedy in error.remedy


@pytest.mark.parametrize("shape", ["0x4", "4096*4096", "4096x", "-1", "0x10", "4_096", "true", "1.5", "[4, 4]"])
def test_shape(refused, shape):
    error = refused(kernel(f"shapes: [{shape}]"))
    assert error.place == "matrix.yaml:3: kernels.softmax.shapes[0]"
    assert "is no shape" in error.message
    assert "4096x4096" in error.remedy


def test_aliases_that_grow_without_end(refused):
    """Ten lists of ten lists each, twelve deep, are a text of 10^12 entries."""
    lists = "".join(f"    - &x{n} [{', '.join([f'*x{n - 1}'] * 10)}]\n" for n in range(1, 12))
    error = refused(f"kernels:\n  a:\n   shapes:\n    - &x0 [1]\n{lists}targets: [h200]\n")
    assert error.place == "matrix.yaml:4: kernels.a.shapes[0]"
    assert error.message.startswith("a list is no shape")


def test_reasons_of_the_longest_length_are_kept(tmp_path):
    path = tmp_path / "matrix.yaml"
    path.write_text(rule(f"kernel: gelu, status: timeout, reason: {500 * 'x'}"))
    assert read_matrix(path).expectations[0].reason == 500 * "x"


def test_path_that_is_not_utf8(tmp_path):
    with pytest.raises(MatrixError, match="has a path that no text can hold") as caught:
        read_matrix(tmp_path / "\udcff.yaml")
    assert r"\udcff.yaml" in caught.value.place


def test_kernel_file_with_a_name_too_long(tmp_path):
    path = tmp_path / "matrix.yaml"
    path.write_text(f"kernels: {{a: {{path: {300 * 'x'}.py}}}}\ntargets: [h200]\n")
    with pytest.raises(MatrixError, match="unknown kernel 'a': no file"):
        check_kernel_files(read_matrix(path))


def test_other_mistakes_are_counted(refused):
    error = refused("kernels:\n  a: {dtype: x}\n  b: {shapes: 3}\ntargets: []\n")
    assert error.place == "matrix.yaml:2: kernels.a.dtype"
    assert error.message == "unknown key 'dtype' (other mistakes at line 3, 4)"


def test_missing_file(tmp_path):
    with pytest.raises(MatrixError, match="no such matrix file") as caught:
        read_matrix(tmp_path / "absent.yaml")
    assert caught.value.place == str(tmp_path / "absent.yaml")


def test_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path.parent)
    with pytest.raises(MatrixError, match="can't be read: Is a directory") as caught:
        read_matrix(tmp_path)
    assert caught.value.place == tmp_path.name
    assert caught.value.remedy == "name a readable file"


def test_an_unknown_kernel_is_named_with_its_line_and_the_nearest(tmp_path):
    (tmp_path / "kernels").mkdir()
    (tmp_path / "kernels" / "softmax.py").touch()
    path = tmp_path / "matrix.yaml"
    path.write_text("version: 1\nkernels:\n  sotmax:\ntargets: [h200]\n")
    with pytest.raises(MatrixError) as caught:
        check_kernel_files(read_matrix(path))
    assert caught.value.place.endswith("matrix.yaml:3: kernels.sotmax")
    assert caught.value.remedy == "did you mean softmax?"


def test_where_there_is_no_kernel_file_the_remedy_says_how_to_have_one(tmp_path):
    path = tmp_path / "matrix.yaml"
    path.write_text("kernels: {a: {}}\ntargets: [h200]\n")
    with pytest.raises(MatrixError, match="unknown kernel 'a': no file") as caught:
        check_kernel_files(read_matrix(path))
    assert "`portkit new`" in caught.value.remedy
