"""Inputs in lists and dicts, complex outputs and empty ones are judged like any others."""

from __future__ import annotations

import functools
from dataclasses import replace

import pytest
import torch

from portkit.model import Cell, Direction, KernelCase, Status, Work
from portkit.run.evaluate import evaluate
from portkit.run.inputs import InputMaker, InputsTooLargeError, hash_tensors
from portkit.run.watched import Runner, StageFailed

RUNNER = Runner("cpu", lambda error, stage: None)
CELL = Cell("sums", Direction.FORWARD, (4, 64), "float32", "default", "interpreter")


def made(make, shape, dtype):
    return {"xs": [make.uniform(shape, dtype) for _ in range(2)], "named": {"w": make.uniform(shape, dtype)}}


def sums(xs, named):
    return xs[0] * named["w"] + xs[1]


CASE = KernelCase(
    name="sums",
    fused=sums,
    reference=sums,
    inputs=made,
    work=lambda shape, dtype: Work(1, 1, 1),
    shapes=((4, 64),),
    small_shapes=((4, 64),),
    dtypes=("float32",),
    variants={"default": {}},
)


def judged(**changes):
    return evaluate(replace(CASE, **changes), CELL, RUNNER, seed=0)


def test_tensors_in_lists_are_upcast_for_the_reference():
    wide = []

    def reference(xs, named):
        wide.append({xs[0].dtype, xs[1].dtype, named["w"].dtype})
        return sums(xs, named)

    assert judged(reference=reference).outcome.status is Status.PASSED
    assert {torch.float64} in wide


def test_a_write_to_a_tensor_in_a_list_is_seen():
    def writes(xs, named):
        out = sums(xs, named)
        xs[1].view(-1)[100] = 7.0
        return out

    done = judged(fused=writes)
    assert done.outcome.status is Status.WRONG_RESULT
    assert "changed its inputs (xs[1])" in done.outcome.message
    assert judged(fused=writes, in_place=("xs",)).outcome.status is Status.PASSED


def test_a_write_beyond_a_tensor_in_a_dict_is_seen():
    def writes(xs, named):
        named["w"].as_strided((1,), (1,), named["w"].storage_offset() + named["w"].numel()).fill_(1.0)
        return sums(xs, named)

    done = judged(fused=writes)
    assert done.outcome.status is Status.OUT_OF_BOUNDS
    assert "named['w']: written after its end" in done.outcome.message


def test_families_change_tensors_in_lists():
    def no_denormals(xs, named):
        return sums([torch.where(xs[0].abs() < 1e-38, 1.0, xs[0]), xs[1]], named)

    assert judged(fused=no_denormals).verdict.families["denormal"].status is Status.WRONG_RESULT


def test_the_hash_sees_bits_in_lists_and_names_of_functions():
    x = torch.arange(3.0)
    base = hash_tensors({"xs": [x, x], "rule": sums})
    assert base == hash_tensors({"xs": [x.clone(), x], "rule": sums})
    assert base != hash_tensors({"xs": [x, x + 1], "rule": sums})
    assert base != hash_tensors({"xs": [x, x], "rule": made})
    bound = functools.partial(sums, named=1)
    assert hash_tensors({"rule": bound}) == hash_tensors({"rule": functools.partial(sums, named=1)})
    assert hash_tensors({"rule": bound}) != hash_tensors({"rule": functools.partial(sums, named=2)})


def test_an_object_whose_text_says_nothing_is_refused():
    with pytest.raises(StageFailed, match="input options is a object: an input is a tensor, a number") as failed:
        judged(inputs=lambda make, shape, dtype: {**made(make, shape, dtype), "options": object()})
    assert failed.value.outcome.status is Status.CAPTURE_FAILED


def complex_case(fused):
    def inputs(make, shape, dtype):
        return {"x": make.uniform(shape, dtype), "y": make.uniform(shape, dtype)}

    return judged(inputs=inputs, fused=fused, reference=lambda x, y: torch.complex(x, y) * torch.complex(y, x))


def test_complex_outputs_are_judged_in_both_parts():
    done = complex_case(lambda x, y: torch.complex(torch.zeros_like(x), x * x + y * y))
    assert done.outcome.status is Status.PASSED, done.outcome
    wrong = complex_case(lambda x, y: torch.complex(torch.zeros_like(x), x * x))
    assert wrong.outcome.status is Status.WRONG_RESULT
    assert wrong.outcome.message.startswith("output 0: error ")
    conjugate = complex_case(lambda x, y: torch.complex(torch.zeros_like(x), x * x + y * y).conj())
    assert conjugate.outcome.status is Status.WRONG_RESULT
    assert conjugate.verdict.output_hash != done.verdict.output_hash


def test_complex_inputs_are_upcast():
    def product(x):
        return x.real * x.imag

    def inputs(make, shape, dtype):
        return {"x": torch.complex(make.uniform(shape, dtype), make.uniform(shape, dtype))}

    wide = []
    done = judged(inputs=inputs, fused=product, reference=lambda x: wide.append(x.dtype) or product(x))
    assert done.outcome.status is Status.PASSED
    assert torch.complex128 in wide


def test_an_output_without_elements_is_right():
    cell = replace(CELL, shape=(0, 64))
    done = evaluate(replace(CASE, small_shapes=((0, 64),)), cell, RUNNER, seed=0)
    assert done.outcome.status is Status.PASSED, done.outcome
    assert (done.verdict.controls, done.verdict.outputs[0].fused_error) == ({}, 0.0)


def test_inputs_over_a_limit_are_not_made():
    make = InputMaker(0, "cpu", most_bytes=4000)
    make.uniform((500,), "float32")
    with pytest.raises(InputsTooLargeError):
        make.full((1 << 40,), "float32", 0.0)
    assert InputMaker(0, "meta").uniform((1 << 40,), "float32").shape == (1 << 40,)
