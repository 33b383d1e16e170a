"""Kernel cases with one wrong field: each names the file, the field and a remedy."""

import enum
import json
from dataclasses import replace

import pytest

from portkit import Direction, Discrete, KernelCase, Work
from portkit.baselines.library import TORCH
from portkit.errors import CaseError
from portkit.model import CaseSource
from portkit.run.declaration import declare

CASE = KernelCase(
    name="softmax",
    fused=lambda x, *, num_warps=8: x,
    reference=lambda x: x,
    inputs=lambda make, shape, dtype: {},
    work=lambda shape, dtype: Work(fused_bytes=2, unfused_bytes=8, flops=0),
    shapes=((8, 8), (4, 4)),
    small_shapes=((2, 8),),
    dtypes=("float32", "bfloat16"),
    variants={"w8": {"num_warps": 8}},
)


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "softmax.py"
    path.write_text("x = 1\n")
    return CaseSource("softmax", path=str(path))


def test_good_case_is_taken_over(source):
    declared = declare(CASE, source)
    assert (declared.shapes, declared.small_shapes) == (((8, 8), (4, 4)), ((2, 8),))
    assert (declared.dtypes, declared.directions) == (("float32", "bfloat16"), (Direction.FORWARD,))
    assert declared.variants == {"w8": {"num_warps": 8}}
    assert len(declared.source_hash) == 16


def test_names_of_baselines_are_taken_over(source):
    takes_all, with_default = (lambda **inputs: inputs["x"]), (lambda x, eps=1e-6: x)
    declared = declare(replace(CASE, baselines={"torch": takes_all, "liger": TORCH.call()(with_default)}), source)
    assert declared.baselines == ("torch", "liger")


def test_parameters_are_taken_over_as_they_are(source):
    """Up to the last byte that is allowed, and no type for another."""
    params = {"text": "x", "flag": True, "scale": 4.0, "none": None, "sizes": [1, {"a": 2}]}
    params["text"] += (1024 - len(json.dumps(params))) * "x"
    case = replace(CASE, fused=lambda x, **params: x, variants={"w8": params})
    kept = declare(case, source).variants["w8"]
    assert kept == params
    assert [type(value) for value in kept.values()] == [str, bool, float, type(None), list]


class Few(enum.IntEnum):
    EIGHT = 8


def broken(*arguments):
    raise ZeroDivisionError("division by zero")


def work(**changes):
    numbers = {"fused_bytes": 2, "unfused_bytes": 8, "flops": 0} | changes
    return lambda shape, dtype: Work(**numbers)


FIELDS = {
    "name": ({"name": "Soft-max"}, "name", "'Soft-max' is no case name", "lower-case"),
    "no shapes": ({"shapes": ()}, "shapes", "is empty", "((4096, 4096),)"),
    "list of shapes": ({"shapes": [(8, 8)]}, "shapes", "is no tuple", "((4096, 4096),)"),
    "one shape": ({"shapes": (8, 8)}, "shapes", "8 is no shape", "((4096, 4096),)"),
    "zero": ({"small_shapes": ((0, 8),)}, "small_shapes", "(0, 8) is no shape", "positive"),
    "bool": ({"shapes": ((True, 8),)}, "shapes", "is no shape", "whole numbers"),
    "doubled shape": ({"shapes": ((8, 8), (8, 8))}, "shapes", "(8, 8) is there twice", "remove one"),
    "ranks": ({"small_shapes": ((8,),)}, "shapes", "shapes have 1 and 2 axes", "same number"),
    "dtype": ({"dtypes": ("fp32",)}, "dtypes", "unknown dtype 'fp32'", "float32"),
    "dtypes a text": ({"dtypes": "float32"}, "dtypes", "is no tuple", '("float32", "bfloat16")'),
    "dtype of a limit": ({"limits": {"bfloat": 0.1}}, "limits", "unknown dtype 'bfloat'", "bfloat16"),
    "dtype of a gap": ({"interpreter_gaps": {"float": "x"}}, "interpreter_gaps", "unknown dtype", "float16"),
    "limit": ({"limits": {"float32": 1.5}}, "limits", "1.5 for float32 is no limit", "below 1"),
    "baselines a list": ({"baselines": [abs]}, "baselines", "is no mapping", '{"torch": pytorch.softmax}'),
    "baseline's name": ({"baselines": {"Liger-Kernel": abs}}, "baselines", "'Liger-Kernel' is no name", "lower-case"),
    "baseline of ours": ({"baselines": {"compile": abs}}, "baselines", "'compile' is portkit's own", "another name"),
    "baseline no function": ({"baselines": {"liger": 3}}, "baselines['liger']", "is no function", "of the inputs"),
    "baseline of other inputs": (
        {"baselines": {"torch": lambda input: input}},
        "baselines['torch']",
        "takes no 'x'",
        "by their names",
    ),
    "baseline with its layout": (
        {"baselines": {"torch": TORCH.call(prepare=lambda gate: {"x": gate})(lambda x: x)}},
        "baselines['torch']",
        "takes no 'x'",
        "by their names",
    ),
    "no variants": ({"variants": {}}, "variants", "there is none", '{"w8": {"num_warps": 8}}'),
    "variant's name": ({"variants": {"w-8": {}}}, "variants", "'w-8' is no variant name", "letters"),
    "parameters": ({"variants": {"w8": {"block": {1, 2}}}}, "variants['w8']", "can't be kept", "lists or dicts"),
    "tuple parameter": ({"variants": {"w8": {"block": (1, 2)}}}, "variants['w8']", "can't be kept", "lists"),
    "enum parameter": ({"variants": {"w8": {"num_warps": Few.EIGHT}}}, "variants['w8']", "can't be kept", "numbers"),
    "surrogate parameter": ({"variants": {"w8": {"text": "\ud800"}}}, "variants['w8']", "can't be kept", "texts"),
    "NaN parameter": ({"variants": {"w8": {"scale": float("nan")}}}, "variants['w8']", "can't be kept", "numbers"),
    "large parameters": (
        {"variants": {"w8": {"text": 1013 * "x"}}},
        "variants['w8']",
        "take 1025 bytes as JSON, 1024 is the most",
        "shortly",
    ),
    "bool for a number": (
        {"variants": {"w8": {"num_warps": True}}},
        "variants['w8']",
        "num_warps=True is no",
        "an int",
    ),
    "float for a number": ({"variants": {"w8": {"num_warps": 4.0}}}, "variants['w8']", "num_warps=4.0 is no", "an int"),
    "long variant's name": ({"variants": {101 * "w": {}}}, "variants", "has 101 characters", "100 at most"),
    "unknown parameter": (
        {"variants": {"w8": {"warps": 8}}},
        "variants['w8']",
        "keyword argument 'warps'",
        "num_warps",
    ),
    "direction": ({"directions": ("forward",)}, "directions", "'forward' is no direction", "Direction.FORWARD"),
    "no directions": ({"directions": ()}, "directions", "is empty", "Direction.FORWARD"),
    "function": ({"reference": 3}, "reference", "is no function", "give a function"),
    "limit of shapes": ({"limits": {"float32": lambda shape: 2.0}}, "limits", "2.0 for float32 is no limit", "below 1"),
    "no limit": ({"limits": {"float32": None}}, "limits", "None for float32 is no limit", "below 1"),
    "reduction": ({"reduction_length": lambda shape: 0}, "reduction_length", "gives 0 for (8, 8)", "positive"),
    "reduction raises": ({"reduction_length": broken}, "reduction_length", "ZeroDivisionError for (8, 8)", "mend it"),
    "work raises": ({"work": broken}, "work", "ZeroDivisionError for (8, 8), 'float32': division by zero", "mend it"),
    "work a number": ({"work": lambda shape, dtype: 7}, "work", "gives 7 for (8, 8) and float32", "portkit.Work"),
    "fractional bytes": ({"work": work(fused_bytes=1.5)}, "work", "gives fused_bytes=1.5", "whole numbers"),
    "no bytes": ({"work": work(fused_bytes=0)}, "work", "gives fused_bytes=0", "positive"),
    "backward work a number": ({"backward_work": 7}, "backward_work", "is no function", "leave it out"),
    "work of no gradient": ({"backward_work": work()}, "backward_work", "without gradients", "Direction.BACKWARD"),
    "bad backward work": (
        {"backward_work": work(fused_bytes=0), "directions": (Direction.FORWARD, Direction.BACKWARD)},
        "backward_work",
        "gives fused_bytes=0",
        "positive",
    ),
    "unknown input": ({"strided_inputs": ("y",)}, "strided_inputs", "`reference` takes no 'y'", "x"),
    "input a text": ({"in_place": "x"}, "in_place", "'x' is no tuple", '("x",)'),
    "family": ({"family_gaps": {"huge": "x"}}, "family_gaps", "no input family is named 'huge'", "large"),
    "rule": ({"discrete": {0: 0.5}}, "discrete", "0: 0.5 is no rule", "portkit.Discrete"),
    "band alone": ({"discrete": {0: Discrete(band=0.1)}}, "discrete", "output 0 has a band but no margin", "margin"),
    "more bytes fused": ({"work": work(fused_bytes=9)}, "work", "more bytes fused (9) than unfused (8)", "every input"),
}


@pytest.mark.parametrize(("changes", "field", "message", "remedy"), FIELDS.values(), ids=FIELDS)
def test_field(source, changes, field, message, remedy):
    case = replace(CASE, **changes)
    with pytest.raises(CaseError) as caught:
        declare(case, source)
    assert caught.value.place == f"{source.path}: {case.name}.{field}"
    assert message in caught.value.message
    assert remedy in caught.value.remedy
