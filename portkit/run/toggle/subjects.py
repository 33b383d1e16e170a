"""The models of an experiment and the arguments of their call."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import psutil
import torch
from torch.utils._pytree import tree_leaves, tree_map

from portkit.errors import CaseError
from portkit.model import CaseSource
from portkit.plan.arguments import DtypeSpec, TensorSpec, map_specs, tensors
from portkit.plan.toggle import Subject, read_inputs
from portkit.run.inputs import InputMaker
from portkit.run.load import import_source
from portkit.run.named import member, tensor
from portkit.run.scrub import scrub

Model = Callable[..., Any]


@dataclass(frozen=True)
class Arguments:
    """What a model is called with."""

    positional: tuple[Any, ...]
    named: dict[str, Any]

    def call(self, model: Model) -> Any:
        """The model's result."""
        return model(*self.positional, **self.named)

    def to_float64(self) -> Arguments:
        """The same values, floating-point ones in float64."""
        return Arguments(tree_map(_float64, self.positional), tree_map(_float64, self.named))


def make_arguments(texts: Sequence[str], device: str, seed: int) -> Arguments:
    """Make the arguments that the texts of ``--input`` ask for; the same bits on every host.

    Raises:
        CaseError: the device has no room for them.
    """
    maker = InputMaker(seed, device)

    def made(spec: TensorSpec | DtypeSpec) -> Any:
        return getattr(torch, spec.dtype) if isinstance(spec, DtypeSpec) else tensor(spec, maker)

    wanted = sum(spec.bytes for _, value in read_inputs(texts) for spec in tensors(value))
    try:
        _see_that_the_host_has(wanted if device == "cpu" else 0)
        values = [(name, map_specs(made, value)) for name, value in read_inputs(texts)]
    except RuntimeError as error:
        message = f"inputs of {wanted / 2**30:,.1f} GiB can't be made on {device}: {told(error)}"
        raise CaseError(message, place="--input", remedy="give smaller ones") from error
    positional = tuple(value for name, value in values if name is None)
    return Arguments(positional, {name: value for name, value in values if name is not None})


def _see_that_the_host_has(wanted: int) -> None:
    """Refuse more bytes than there are: a system that promises any memory would be filled until it ends processes."""
    total = psutil.virtual_memory().total
    if wanted > total:
        raise RuntimeError(f"this host has {total / 2**30:,.1f} GiB")


def build(subject: Subject, device: str, seed: int) -> Model:
    """The model of a subject on the device, its random weights from the seed.

    Raises:
        CaseError: the function is not there, takes arguments, fails, or returns no model.
    """
    function = _function(subject)
    torch.manual_seed(seed)
    try:
        with torch.device(device):
            model = function()
    except Exception as error:
        raise CaseError(
            f"building the model failed: {told(error)}",
            place=place_of(error, subject),
            remedy=_remedy(error),
        ) from error
    if not callable(model):
        raise CaseError(
            f"returns a value of type {type(model).__name__}, which is no model",
            place=subject.text,
            remedy="return a torch.nn.Module, or a function of the inputs",
        )
    return model.to(device) if isinstance(model, torch.nn.Module) else model  # type: ignore[no-any-return]


def same_weights(model: Model, of: Model) -> str | None:
    """Give a model the weights of another; why not, where it has others."""
    if not isinstance(model, torch.nn.Module) or not isinstance(of, torch.nn.Module):
        return _NO_MODULE
    return _loaded(model, of.state_dict())


def save_weights(model: Model, path: Path) -> str | None:
    """Leave a model's weights for another process; the file's path, or None where it has none."""
    if not isinstance(model, torch.nn.Module):
        return None
    torch.save(model.state_dict(), path)
    return str(path)


def load_weights(model: Model, path: str | None) -> str | None:
    """Give a model the weights of a file; why not, where it has others."""
    if path is None or not isinstance(model, torch.nn.Module):
        return _NO_MODULE
    return _loaded(model, torch.load(path, weights_only=True, map_location="cpu"))


_NO_MODULE: Final = "its weights are its builder's: one of both is no torch.nn.Module"


def _loaded(model: torch.nn.Module, weights: Mapping[str, Any]) -> str | None:
    try:
        model.load_state_dict(weights)
    except RuntimeError as error:
        return f"its weights are its builder's: {told(error)}"
    return None


def run(model: Model, arguments: Arguments, subject: Subject) -> tuple[torch.Tensor, ...]:
    """Call a model; the tensors of its result.

    Raises:
        CaseError: the call fails, or its result has no tensor.
    """
    try:
        result = arguments.call(model)
    except Exception as error:
        raise CaseError(
            f"the model does not run on these inputs: {told(error)}",
            place=place_of(error, subject),
            remedy="give each argument of its call as --input dtype[shape] or --input NAME=dtype[shape], "
            "in the dtype of its weights",
        ) from error
    found = tensors_in(result)
    if not found:
        raise CaseError(
            f"the model returns a value of type {type(result).__name__} without a tensor in it",
            place=subject.text,
            remedy="let it return a tensor, or a tuple, list or dict of tensors",
        )
    return found


def tensors_in(result: object) -> tuple[torch.Tensor, ...]:
    """Tensors of a result, in order."""
    return tuple(each for each in tree_leaves(result) if isinstance(each, torch.Tensor))


def told(error: BaseException) -> str:
    """Type and first lines of an error's text."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    kept = [line for line in lines if not line.startswith("Set TORCHDYNAMO_VERBOSE")]
    return scrub(f"{type(error).__name__}: {' '.join(kept[:2])}")[:240].rstrip()


def place_of(error: BaseException, subject: Subject) -> str:
    """The line of the user's file at which it failed, else what the user named."""
    frames = [each for each in traceback.extract_tb(error.__traceback__) if each.filename == subject.path]
    return f"{subject.path}:{frames[-1].lineno}" if frames else subject.text


def _remedy(error: Exception) -> str:
    if isinstance(error, ImportError):
        return "install what it imports beside portkit"
    return "name a function that needs no arguments and returns the model"


def _module(subject: Subject) -> ModuleType:
    try:
        return import_source(CaseSource(subject.name, path=subject.path, module=subject.module))
    except CaseError as error:
        raise CaseError(error.message, place=error.place, remedy="mend the file so that it imports alone") from error


def _function(subject: Subject) -> Callable[[], Any]:
    function = member(_module(subject), subject.function, subject.text)
    if not callable(function):
        raise CaseError(
            f"{subject.function} is a value of type {type(function).__name__} and no function",
            place=subject.text,
            remedy="name a function without arguments that returns the model",
        )
    return function  # type: ignore[no-any-return]


def _float64(value: Any) -> Any:
    wide = isinstance(value, torch.Tensor) and value.is_floating_point()
    return value.to(torch.float64) if wide else value
