"""Makes a kernel case of a function that nobody declared as one, so that it is captured like any other.

The case has no work model and no unfused chain: it is there to be called. Nothing of the user's
code runs but the import of the function's module and the function itself; of a script, all of it.
"""

from __future__ import annotations

import functools
import inspect
import json
import sys
import sysconfig
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from triton.runtime.jit import KernelInterface

from portkit.errors import CaseError
from portkit.model import FAMILIES, CaseSource, Cell, CellResult, Check, Direction, KernelCase
from portkit.plan.arguments import DtypeSpec, TensorSpec, map_specs, parse_argument, tensors
from portkit.plan.check import CALL, IMPORTED, shape_and_dtype
from portkit.plan.signature import bind
from portkit.run.inputs import InputMaker
from portkit.run.named import member, tensor
from portkit.run.scripts import run_script
from portkit.run.tree import named_tensors

IMPORTS_ALONE = "mend the file so that it imports alone"
"""What helps where a file that nobody put into a matrix does not."""

_ELSEWHERE = frozenset({"torch", "triton", "portkit"})

Import = Callable[[CaseSource], ModuleType]
Pairs = Sequence[tuple[str, str]]


def case_of(source: CaseSource, check: Check, load: Import) -> KernelCase:
    """The kernel case of a check; imports the module of its function.

    Args:
        source: where the function is.
        check: how it is called.
        load: imports the module of a source.

    Raises:
        CaseError: the function is not there, can't be called, or does not take these arguments.
    """
    shape, dtype = shape_and_dtype(check)
    fused = _script(check) if check.script else _function(source, check, load)
    names = tuple(_inputs(check.arguments, InputMaker(device="meta")))
    return KernelCase(
        name=source.name,
        fused=fused,
        reference=fused if check.reference is None else _reference(check.reference, check, load),
        inputs=lambda make, shape, dtype: _inputs(check.arguments, make),
        work=None,  # type: ignore[arg-type]  # nobody described what the function must do
        shapes=(shape,),
        small_shapes=(shape,),
        dtypes=(dtype,),
        variants={CALL: {}},
        directions=(Direction.BACKWARD if check.backward else Direction.FORWARD,),
        reduction_length=lambda shape: shape[-1] if shape else 1,
        in_place=names,  # nobody said what the function may write to
        family_gaps=dict.fromkeys(FAMILIES, "a check runs on the arguments that it was given"),
    )


def _reference(source: CaseSource, check: Check, load: Import) -> Callable[..., tuple[torch.Tensor, ...]]:
    """The function that results are held against, called as the one that is checked."""
    assert source.check is not None
    return _function(source, replace(source.check, arguments=check.arguments), load)


def _inputs(arguments: Pairs, make: InputMaker) -> dict[str, Any]:
    """Arguments by name, those without one by their position."""
    named = [(name or str(place), text) for place, (name, text) in enumerate(arguments)]
    return {name: _made(text, make) for name, text in named}


def _made(text: str, make: InputMaker) -> Any:
    def made(spec: TensorSpec | DtypeSpec) -> Any:
        return getattr(torch, spec.dtype) if isinstance(spec, DtypeSpec) else tensor(spec, make)

    return map_specs(made, parse_argument(text, "--arg"))


# --------------------------------------------------------------------------
# What is called


def _script(check: Check) -> Callable[..., tuple[torch.Tensor, ...]]:
    """A call that runs a script as ``python script.py …`` would, and launches what was generated for it."""

    def run() -> tuple[torch.Tensor, ...]:
        with torch.enable_grad():
            if check.generated is None:
                run_script(check.script)
            else:
                _with_generated(check.script, Path(check.generated))
        return ()

    return run


def _with_generated(command: Sequence[str], generated: Path) -> None:
    """The script without torch.compile, then the kernels that this made of it on a GPU."""
    from portkit.run.inductor.rebuilt import as_it_is, launch_all  # noqa: PLC0415 - loads the compiler

    torch.compile = as_it_is
    run_script(command)
    launch_all(generated)


def _function(source: CaseSource, check: Check, load: Import) -> Callable[..., tuple[torch.Tensor, ...]]:
    if check.root is not None and check.root not in sys.path:
        sys.path.insert(0, check.root)
    module = _imported_module(source, load)
    found = member(module, check.function, str(source))
    if owner := _owner(module, check.function):
        return _method(owner, check, source)
    if isinstance(found, KernelInterface):
        return _launching(found, check, source)
    _refuse_grid(check, source)
    if inspect.isclass(found):
        return _calling(_callable(found, check, source), check, source)
    if not callable(found):
        raise CaseError(f"{check.function} is no function", place=str(source), remedy="name a function or a kernel")
    if inspect.iscoroutinefunction(found) or inspect.isgeneratorfunction(found):
        raise CaseError(
            f"{check.function} runs only when it is awaited or iterated over, which a call does not",
            place=str(source),
            remedy="name a function that does so",
        )
    _bind(found, check.arguments, source, check.function)
    return _calling(lambda given: found, check, source)


def _imported_module(source: CaseSource, load: Import) -> ModuleType:
    try:
        return load(source)
    except CaseError as error:
        raise CaseError(error.message, place=error.place, remedy=IMPORTS_ALONE) from error


def _owner(module: ModuleType, dotted: str) -> type | None:
    """The class of which a dotted name means a method that needs an object."""
    path, _, name = dotted.rpartition(".")
    owner = member(module, path, dotted) if path else None
    plain = inspect.isclass(owner) and inspect.isfunction(inspect.getattr_static(owner, name, None))
    return owner if plain else None


def _method(owner: type, check: Check, source: CaseSource) -> Callable[..., tuple[torch.Tensor, ...]]:
    """A call of a method, on an object that is made with the arguments of ``--init``."""
    _refuse_grid(check, source)
    name = check.function.rpartition(".")[2]
    _bind(owner, check.init, source, owner.__qualname__, "--init")
    _bind(functools.partial(getattr(owner, name), None), check.arguments, source, check.function)
    return _calling(lambda given: getattr(_instance(owner, check, given), name), check, source)


def _callable(found: type, check: Check, source: CaseSource) -> Callable[[Mapping[str, Any]], Any]:
    """What makes the object of a class that is then called."""
    if not any("__call__" in vars(each) for each in found.__mro__):
        raise CaseError(
            f"objects of {check.function} can't be called",
            place=str(source),
            remedy=f"name a method of it, as {check.function}.METHOD, or a function",
        )
    _bind(found, check.init, source, found.__qualname__, "--init")
    return lambda given: _instance(found, check, given)


def _refuse_grid(check: Check, source: CaseSource) -> None:
    if check.grid:
        raise CaseError(
            f"{check.function} is no kernel, and so it chooses its grid itself",
            place=str(source),
            remedy="leave --grid out",
        )


def _bind(function: Callable[..., Any], arguments: Pairs, source: CaseSource, name: str, option: str = "--arg") -> None:
    """See that a function takes the arguments, by its signature if it has one."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return
    bind(signature, arguments, str(source), f"{name}{signature}", option)


def _calling(
    callee: Callable[[Mapping[str, Any]], Callable[..., Any]], check: Check, source: CaseSource
) -> Callable[..., tuple[torch.Tensor, ...]]:
    def call(**given: Any) -> tuple[torch.Tensor, ...]:
        with torch.enable_grad():
            by_place = [given[key] for key in given if key.isdecimal()]
            named = {key: value for key, value in given.items() if not key.isdecimal()}
            return _tensors(callee(given)(*by_place, **named))

    return call


def _instance(found: type, check: Check, given: Mapping[str, Any]) -> Any:
    """An object of a class, made anew for each call, alike each time; a module of the arguments' dtype, on the GPU."""
    make = InputMaker(_INIT_SEED, _backing(given))
    values = {name: _made(text, make) for name, text in check.init if name}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(_INIT_SEED)
        made = found(*[_made(text, make) for name, text in check.init if not name], **values)
    if isinstance(made, torch.nn.Module):
        made = _in_dtype(made.to("cuda"), check, given)
    return made


_INIT_SEED = 1
"""Of what objects are made with, and of the weights that they choose: another than that of the arguments."""


def _backing(given: Mapping[str, Any]) -> str:
    """The device that really holds the arguments: ``meta`` where nothing does."""
    with torch._C.DisableTorchFunction():
        return next((tensor.device.type for _, tensor in named_tensors(given)), "cpu")


def _in_dtype(made: torch.nn.Module, check: Check, given: Mapping[str, Any]) -> torch.nn.Module:
    """A module in the dtype of the call that is checked, and then of this one, which may be wider to compare with."""
    own = [spec.dtype for _, text in check.arguments for spec in tensors(parse_argument(text, "--arg"))]
    named = next((dtype for each in own if (dtype := getattr(torch, each)).is_floating_point), None)
    first = next((t.dtype for _, t in named_tensors(given) if t.is_floating_point()), None)
    for dtype in (named, first):
        made = made if dtype is None else made.to(dtype)
    return made


def _launching(
    kernel: KernelInterface[Any], check: Check, source: CaseSource
) -> Callable[..., tuple[torch.Tensor, ...]]:
    """A call that launches a kernel itself; what it writes to is among its arguments."""
    if not check.grid:
        raise CaseError(
            f"{check.function} is a kernel: nothing says with how many blocks it is launched",
            place=str(source),
            remedy="give --grid, such as --grid 1024 or --grid 64,8; or name the function that launches it",
        )

    def launch(**given: Any) -> tuple[torch.Tensor, ...]:
        by_place = [given[key] for key in given if key.isdecimal()]
        named = {key: value for key, value in given.items() if not key.isdecimal()}
        kernel[check.grid](*by_place, **named)
        return _tensors(list(given.values()))

    return launch


def _tensors(value: Any) -> tuple[torch.Tensor, ...]:
    """Every tensor in what a function returned, in order."""
    return tuple(tensor for _, tensor in named_tensors({"": value}))


# --------------------------------------------------------------------------
# What a result depends on


def naming_imports(build: Callable[[Cell], CellResult]) -> Callable[[Cell], CellResult]:
    """The same, whose results also name the files that were imported for them."""

    def run(cell: Cell) -> CellResult:
        result = build(cell)
        return replace(result, blobs={**result.blobs, IMPORTED: json.dumps(_imported()).encode()})

    return run


def _imported() -> list[str]:
    """Files of all modules but Python's own, PyTorch's, Triton's and portkit's, whose versions say enough."""
    python = sysconfig.get_path("stdlib")
    found = []
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if isinstance(file, str) and name.partition(".")[0] not in _ELSEWHERE and _is_own(file, python):
            found.append(str(Path(file).resolve()))
    return sorted(set(found))


def _is_own(file: str, python: str) -> bool:
    return not file.startswith(python) or "-packages" in file
