"""Kernel case → its declaration in plain values, every field checked."""

from __future__ import annotations

import inspect
import json
import re
import reprlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from portkit.errors import CaseError, nearest
from portkit.model import (
    DTYPE_BYTES,
    FAMILIES,
    CaseDeclaration,
    CaseSource,
    Direction,
    Discrete,
    KernelCase,
    Shape,
    Work,
)
from portkit.plan.baselines import RESERVED
from portkit.plan.cases import plain_json
from portkit.run.source_hash import check_executed, source_hash

_NAME = re.compile(r"[a-z][a-z0-9_]*")
_WHOLE = frozenset({"num_warps", "num_stages", "num_ctas", "maxnreg", "waves_per_eu", "matrix_instr_nonkdim", "kpack"})
"""Triton's launch options that are whole numbers."""

PARAMETER_BYTES = 1024
"""Most of a variant's parameters as JSON: they are in the record of each of its cells."""

NAME_CHARACTERS = 100
"""Most of a name: it is in the label of each cell."""

_VARIANT = re.compile(r"[A-Za-z0-9_.]+")
_SHAPES = "write a tuple of tuples of positive whole numbers, such as ((4096, 4096),)"


def declare(case: KernelCase, source: CaseSource) -> CaseDeclaration:
    """Check a case and take over what the plan needs.

    Raises:
        CaseError: the first field that is wrong; the place names file and field.
    """
    check = _Check(case, source)
    check.name()
    check.shapes()
    check.names_of_dtypes()
    check.variants()
    check.directions()
    check.callables()
    check.figures()
    check.inputs_by_name()
    check.verdict_rules()
    check.baselines()
    check.backward_work()
    check.work()
    check_executed(source)
    return CaseDeclaration(
        source=source,
        shapes=case.shapes,
        small_shapes=case.small_shapes,
        dtypes=case.dtypes,
        variants={name: dict(params) for name, params in case.variants.items()},
        directions=case.directions,
        source_hash=source_hash(source),
        baselines=tuple(case.baselines),
    )


@dataclass(frozen=True)
class _Check:
    """One method a group of fields; each raises for the first mistake it finds."""

    case: KernelCase
    source: CaseSource

    def wrong(self, field: str, message: str, remedy: str) -> CaseError:
        return CaseError(message, place=f"{self.source}: {self.case.name}.{field}", remedy=remedy)

    def name(self) -> None:
        if not _NAME.fullmatch(self.case.name):
            raise self.wrong(
                "name", f"{self.case.name!r} is no case name", "use lower-case letters, digits and _, as add_rms_norm"
            )

        self._short("name", self.case.name)

    def _short(self, field: str, name: str) -> None:
        if len(name) > NAME_CHARACTERS:
            raise self.wrong(field, f"a name has {len(name)} characters", f"use {NAME_CHARACTERS} at most")

    def shapes(self) -> None:
        for field in ("shapes", "small_shapes"):
            shapes = self._filled(field, getattr(self.case, field), _SHAPES)
            for shape in shapes:
                if not _is_shape(shape):
                    raise self.wrong(field, f"{shape!r} is no shape", _SHAPES)
            self._distinct(field, shapes)
        ranks = {len(shape) for shape in (*self.case.shapes, *self.case.small_shapes)}
        if len(ranks) > 1:
            raise self.wrong(
                "shapes", f"shapes have {' and '.join(map(str, sorted(ranks)))} axes", "give all the same number"
            )

    def names_of_dtypes(self) -> None:
        names = self._filled("dtypes", self.case.dtypes, 'write a tuple of names, such as ("float32", "bfloat16")')
        self._distinct("dtypes", names)
        for field in ("dtypes", "limits", "interpreter_gaps"):
            for dtype in getattr(self.case, field):
                if dtype not in DTYPE_BYTES:
                    raise self.wrong(field, f"unknown dtype {dtype!r}", nearest(str(dtype), DTYPE_BYTES))

    def variants(self) -> None:
        if not isinstance(self.case.variants, Mapping) or not self.case.variants:
            raise self.wrong("variants", "there is none", 'write a mapping, such as {"w8": {"num_warps": 8}}')
        for name, params in self.case.variants.items():
            if not isinstance(name, str) or not _VARIANT.fullmatch(name):
                raise self.wrong("variants", f"{name!r} is no variant name", "use letters, digits, _ and ., as w8")
            self._short("variants", name)
            self._variant(name, params)

    def directions(self) -> None:
        directions = self._filled("directions", self.case.directions, "write a tuple, such as (Direction.FORWARD,)")
        self._distinct("directions", directions)
        for direction in directions:
            if not isinstance(direction, Direction):
                raise self.wrong("directions", f"{direction!r} is no direction", "use portkit.Direction.FORWARD")

    def callables(self) -> None:
        for field in ("fused", "reference", "inputs", "work", "reduction_length"):
            if not callable(getattr(self.case, field)):
                raise self.wrong(field, "is no function", "give a function")
        for name, params in self.case.variants.items():
            self._accepts(name, params)

    def figures(self) -> None:
        shapes = (*self.case.shapes, *self.case.small_shapes)
        for dtype, own in self.case.limits.items():
            for limit in [self._call("limits", own, shape) for shape in shapes] if callable(own) else [own]:
                self._limit(dtype, limit, missing=callable(own))
        for shape in shapes:
            length = self._call("reduction_length", self.case.reduction_length, shape)
            if type(length) is not int or length < 1:
                raise self.wrong("reduction_length", f"gives {length!r} for {shape}", "return a positive whole number")

    def _limit(self, dtype: str, limit: object, *, missing: bool) -> None:
        if missing and limit is None:
            return
        if not isinstance(limit, int | float) or not 0 < limit < 1:
            raise self.wrong("limits", f"{limit!r} for {dtype} is no limit", "give a relative error below 1")

    def inputs_by_name(self) -> None:
        """Fields that name inputs, and the parameters of ``reference`` that they must be."""
        known = _parameters(self.case.reference)
        for field in ("differentiable", "in_place", "row_inputs", "strided_inputs"):
            names = getattr(self.case, field)
            if names is None:
                continue
            if not isinstance(names, tuple):
                raise self.wrong(field, f"{names!r} is no tuple", 'write a tuple of names, such as ("x",)')
            for name in names:
                if known is not None and name not in known:
                    raise self.wrong(field, f"`reference` takes no {name!r}", nearest(str(name), known))

    def baselines(self) -> None:
        if not isinstance(self.case.baselines, Mapping):
            raise self.wrong("baselines", "is no mapping", 'write one, such as {"torch": pytorch.softmax}')
        for name, function in self.case.baselines.items():
            if not isinstance(name, str) or not _NAME.fullmatch(name):
                raise self.wrong("baselines", f"{name!r} is no name", "use lower-case letters, digits and _, as liger")
            if name in RESERVED:
                raise self.wrong("baselines", f"{name!r} is portkit's own", "give it another name")
            self._short("baselines", name)
            if not callable(function):
                raise self.wrong(f"baselines[{name!r}]", "is no function", "give a function of the inputs")
            self._takes_inputs(name, function)

    def _takes_inputs(self, name: str, function: Callable[..., Any]) -> None:
        known, taken = _parameters(self.case.reference), _parameters(function)
        missing = [each for each in known or () if taken is not None and each not in taken]
        needed = [each for each in missing if _needed(self.case.reference, each)]
        if needed:
            raise self.wrong(
                f"baselines[{name!r}]", f"takes no {needed[0]!r}", "give it the inputs of `reference`, by their names"
            )

    def verdict_rules(self) -> None:
        for family in self.case.family_gaps:
            if family not in FAMILIES:
                raise self.wrong("family_gaps", f"no input family is named {family!r}", nearest(str(family), FAMILIES))
        for position, rule in self.case.discrete.items():
            if type(position) is not int or position < 0 or not isinstance(rule, Discrete):
                text = "map positions of outputs to rules, such as {0: portkit.Discrete(margin)}"
                raise self.wrong("discrete", f"{position!r}: {rule!r} is no rule", text)
            if rule.margin is None and rule.band is not None:
                raise self.wrong("discrete", f"output {position} has a band but no margin", "give the margin function")

    def backward_work(self) -> None:
        if self.case.backward_work is None:
            return
        if not callable(self.case.backward_work):
            raise self.wrong("backward_work", "is no function", "give a function, or leave it out")
        if Direction.BACKWARD not in self.case.directions:
            raise self.wrong("backward_work", "is of a case without gradients", "add portkit.Direction.BACKWARD")

    def work(self) -> None:
        shapes = (*self.case.shapes, *self.case.small_shapes)
        for field, model in (("work", self.case.work), ("backward_work", self.case.backward_work)):
            if model is None:
                continue
            for shape, dtype in product(shapes, self.case.dtypes):
                self._work(field, shape, dtype, self._call(field, model, shape, dtype))

    def _work(self, field: str, shape: Shape, dtype: str, work: Any) -> None:
        where = f"for {shape} and {dtype}"
        if not isinstance(work, Work):
            raise self.wrong(field, f"gives {work!r} {where}", "return a portkit.Work")
        numbers = {name: getattr(work, name) for name in ("fused_bytes", "unfused_bytes", "flops")}
        for name, value in numbers.items():
            if type(value) is not int or value < (0 if name == "flops" else 1):
                raise self.wrong(field, f"gives {name}={value!r} {where}", "return positive whole numbers")
        if work.fused_bytes > work.unfused_bytes:
            raise self.wrong(
                field,
                f"gives more bytes fused ({work.fused_bytes}) than unfused ({work.unfused_bytes}) {where}",
                "count what must move: the unfused chain reads every input and writes every output too",
            )

    def _variant(self, name: str, params: Any) -> None:
        if not isinstance(params, Mapping) or not plain_json(dict(params)):
            raise self.wrong(
                f"variants[{name!r}]",
                f"{reprlib.repr(params)} can't be kept in a report",
                "use a mapping of names to numbers, texts, bools, None, and lists or dicts of these",
            )
        size = len(json.dumps(dict(params), ensure_ascii=False).encode())
        if size > PARAMETER_BYTES:
            raise self.wrong(
                f"variants[{name!r}]",
                f"its parameters take {size} bytes as JSON, {PARAMETER_BYTES} is the most",
                "name them shortly, and look up what is long in `fused`",
            )
        for option in _WHOLE & params.keys():
            if type(params[option]) not in (int, type(None)):
                raise self.wrong(
                    f"variants[{name!r}]", f"{option}={params[option]!r} is no whole number", "write an int, such as 8"
                )

    def _accepts(self, name: str, params: Mapping[str, Any]) -> None:
        try:
            signature = inspect.signature(self.case.fused)
        except (TypeError, ValueError):  # a builtin tells nothing
            return
        try:
            signature.bind_partial(**params)
        except TypeError as error:
            raise self.wrong(
                f"variants[{name!r}]", f"`fused` does not take it: {error}", f"its signature is {signature}"
            ) from None

    def _filled(self, field: str, values: Any, remedy: str) -> tuple[Any, ...]:
        if not isinstance(values, tuple) or not values:
            raise self.wrong(field, "is no tuple" if values else "is empty", remedy)
        return values

    def _distinct(self, field: str, values: Sequence[Any]) -> None:
        doubled = next((value for index, value in enumerate(values) if value in values[:index]), None)
        if doubled is not None:
            raise self.wrong(field, f"{doubled!r} is there twice", "remove one of the two")

    def _call(self, field: str, function: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return function(*arguments)
        except Exception as error:
            raise self.wrong(
                field,
                f"raises {type(error).__name__} for {', '.join(map(repr, arguments))}: {error}",
                "mend it for every shape and dtype declared",
            ) from error


def _parameters(function: Callable[..., Any]) -> list[str] | None:
    """Names that a function takes; None where it takes any, or tells nothing."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return None
    if any(each.kind is each.VAR_KEYWORD for each in parameters):
        return None
    return [each.name for each in parameters]


def _needed(function: Callable[..., Any], name: str) -> bool:
    """Whether a parameter has no default."""
    return inspect.signature(function).parameters[name].default is inspect.Parameter.empty


def _is_shape(shape: Any) -> bool:
    return isinstance(shape, tuple) and bool(shape) and all(type(size) is int and size > 0 for size in shape)
