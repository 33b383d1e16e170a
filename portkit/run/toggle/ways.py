"""The experiment: every way to call the model, made, judged, and timed beside the others."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import torch

from portkit.model import Clock, Ratio
from portkit.plan.baselines import EAGER
from portkit.plan.toggle import Subject, ToggleRequest
from portkit.run.timing.rounds import Bounds, Rounds
from portkit.run.timing.statistics import of_rounds
from portkit.run.timing.wall import Sample, sample_of, wall_rounds
from portkit.run.toggle import inductor
from portkit.run.toggle.agreement import Judge
from portkit.run.toggle.counters import CountedWay
from portkit.run.toggle.counting import Counts, count
from portkit.run.toggle.device import chosen, finish_on, name_of
from portkit.run.toggle.remote import Remote
from portkit.run.toggle.subjects import (
    Arguments,
    Model,
    build,
    make_arguments,
    run,
    same_weights,
    save_weights,
    tensors_in,
    told,
)
from portkit.run.toggle.variant import CALLS_BEFORE, Traced, VariantRequest
from portkit.store.toggled import Agreement, Break, Roofs, Toggled, Way

Stage = Callable[[str], None]
"""Hears what is done next, for people."""

Tensors = tuple[torch.Tensor, ...]

_NO_GPU: Final = "on a CPU there is no device trace"


@dataclass(frozen=True)
class _Made:
    """A way, and how it is called: in this process, or in that of a variant."""

    way: Way
    call: Callable[[], object] | Remote


@dataclass
class Experiment:
    """One request under way.

    Args:
        request: what is asked.
        stage: hears what is done next.
    """

    request: ToggleRequest
    stage: Stage
    device: str = ""
    loading_s: float | None = None
    nulls: dict[str, str] = field(default_factory=dict)

    def run(self) -> Toggled:
        """All of it.

        Raises:
            CaseError: the model or the inputs can't be used.
            HostError: the device asked for is not there.
        """
        self.device = chosen(self.request.device)
        with ExitStack() as ends:
            remotes = [Remote() for _ in self.request.variants]  # they load PyTorch meanwhile
            for remote in remotes:
                ends.callback(remote.close)
            folder = Path(ends.enter_context(TemporaryDirectory(prefix="portkit-variants-")))
            return self._run(remotes, folder)

    def _run(self, remotes: Sequence[Remote], folder: Path) -> Toggled:
        self.stage("building the model")
        arguments = make_arguments(self.request.inputs, self.device, self.request.seed)
        model = self._build(self.request.model)
        eager = _kept(run(model, arguments, self.request.model))
        judge = self._judge(model, arguments, eager)
        counts = self._counts(model, arguments)
        breaks = self._breaks(model, arguments)
        made = [_Made(self._eager_way(counts), partial(arguments.call, model))]
        made += self._all_compiled(model, arguments, judge)
        weights = save_weights(model, folder / "weights") if remotes else None
        made += [self._variant(remote, number, folder, weights, judge) for number, remote in enumerate(remotes)]
        self.stage("timing all ways, interleaved")
        ways, rounds = self._timed(made)
        if self.request.counters:
            ways = self._with_counters(ways)
        return self._found(ways, rounds, counts, breaks, _dtype(model, eager))

    # ----------------------------------------------------------------------
    # Before any way

    def _build(self, subject: Subject) -> Model:
        return build(subject, self.device, self.request.seed)

    def _judge(self, model: Model, arguments: Arguments, eager: Tensors) -> Judge | None:
        self.stage("running it in float64, as the reference")
        torch.manual_seed(self.request.seed + 1)
        if not Judge(eager, None).judge(tensors_in(arguments.call(model))).right:
            self.nulls["agreement"] = "the eager model differs from call to call: call .eval() where it has dropout"
            return None
        reference, why = self._reference(model, arguments)
        if why:
            self.nulls["reference"] = why
        return Judge(eager, reference)

    def _reference(self, model: Model, arguments: Arguments) -> tuple[Tensors | None, str]:
        """The model's result in float64, and why there is none."""
        try:
            wide = self._build(self.request.model)
            if isinstance(wide, torch.nn.Module) and same_weights(wide, model) is None:
                wide = wide.double()
            found = tensors_in(arguments.to_float64().call(wide))
        except Exception as error:  # whatever a model that is bound to its dtype raises
            return None, f"no float64 reference, results are held against eager's: {told(error)}"
        narrow = [each.dtype for each in found if each.is_floating_point() and each.dtype != torch.float64]
        if narrow:
            return None, f"no float64 reference, results are held against eager's: the model returns {narrow[0]} always"
        return found, ""

    def _counts(self, model: Model, arguments: Arguments) -> Counts | None:
        self.stage("counting operations and bytes of the eager model")
        try:
            found = count(lambda: arguments.call(model))
        except Exception as error:  # some operations refuse a dispatch mode
            self.nulls["counts"] = f"operations could not be counted: {told(error)}"
            return None
        if found.why:
            self.nulls["flops"] = found.why
        return found

    def _breaks(self, model: Model, arguments: Arguments) -> tuple[Break, ...] | None:
        if not self.request.modes:
            self.nulls["breaks"] = "no mode of torch.compile was asked for"
            return None
        self.stage("looking for graph breaks")
        try:
            return inductor.graph_breaks(model, arguments)
        except Exception as error:  # what Dynamo can't follow at all
            self.nulls["breaks"] = f"Dynamo can't follow the model: {told(error)}"
            return None

    # ----------------------------------------------------------------------
    # Ways

    def _eager_way(self, counts: Counts | None) -> Way:
        if counts is None:
            return Way(EAGER, nulls=dict.fromkeys(("launches", "moved_bytes"), self.nulls["counts"]))
        return Way(EAGER, launches=None if self._on_gpu else counts.operations, moved_bytes=counts.moved_bytes)

    def _all_compiled(self, model: Model, arguments: Arguments, judge: Judge | None) -> list[_Made]:
        if not self.request.modes:
            return []
        self.stage("loading the compiler")
        self.loading_s = inductor.load(self.device)
        return [self._compiled(model, mode, arguments, judge) for mode in self.request.modes]

    def _compiled(self, model: Model, mode: str, arguments: Arguments, judge: Judge | None) -> _Made:
        self.stage(f"compiling, mode {mode}")
        way = Way(inductor.way_of(mode), mode)
        try:
            compiled = inductor.compile_model(model, mode, arguments, self._finish)
        except Exception as error:  # the compiler's own, in any of its stages
            return _Made(replace(way, failed=f"torch.compile fails: {told(error)}"), lambda: None)
        code = compiled.code
        way = replace(
            way,
            first_call_s=compiled.first_call_s,
            generated=code,
            launches=None if code is None or self._on_gpu else code.calls,
            moved_bytes=compiled.moved_bytes,
            nulls=compiled.nulls,
        )
        way = self._judged(way, tensors_in(compiled.result), judge)
        return _Made(way, inductor.calling(compiled.model, arguments))

    def _variant(self, remote: Remote, number: int, folder: Path, weights: str | None, judge: Judge | None) -> _Made:
        subject = self.request.variants[number]
        self.stage(f"building variant {subject.name}")
        result = str(folder / f"result-{number}")
        asked = VariantRequest(subject, self.request.inputs, self.device, self.request.seed, weights, result)
        way = remote.build(asked)
        if way.failed is None:
            way = self._judged(way, remote.result(asked), judge)
        return _Made(way, remote)

    def _judged(self, way: Way, result: Tensors, judge: Judge | None) -> Way:
        if judge is None:
            return replace(way, nulls={**way.nulls, "agreement": self.nulls["agreement"]})
        found: Agreement = judge.judge(result)
        return replace(way, agreement=found)

    # ----------------------------------------------------------------------
    # Time

    def _timed(self, made: Sequence[_Made]) -> tuple[tuple[Way, ...], Rounds[float]]:
        ready = [each for each in made if each.way.failed is None]
        before = CALLS_BEFORE if any(isinstance(each.call, Remote) for each in ready) else 0
        samples = {each.way.name: self._sample(each.call, before) for each in ready}
        rounds = wall_rounds(samples, Bounds(self.request.seconds, fewest=8, least=20, step=4))
        clocks, slower = of_rounds({name: rounds.column(name) for name in samples}, EAGER)
        speedups = {name: _inverse(ratio) for name, ratio in slower.items()}
        timed = [replace(each, way=_with_time(each.way, clocks, speedups)) for each in made]
        return tuple(self._with_trace(timed)), rounds

    def _sample(self, call: Callable[[], object] | Remote, before: int) -> Sample:
        return call.sample if isinstance(call, Remote) else sample_of(call, self._finish, calls_before=before)

    def _with_trace(self, made: Sequence[_Made]) -> Iterator[Way]:
        if not self._on_gpu:
            yield from (_without(each.way, _NO_GPU, "kernel_ms") for each in made)
            return
        self.stage("tracing kernels")
        here = {
            each.way.name: each.call for each in made if each.way.failed is None and not isinstance(each.call, Remote)
        }
        found = _traced_here(here)
        for each in made:
            if each.way.failed is not None:
                yield each.way
            else:
                yield _with_kernels(
                    each.way, each.call.trace() if isinstance(each.call, Remote) else found[each.way.name]
                )

    def _with_counters(self, ways: Sequence[Way]) -> tuple[Way, ...]:
        if not self._on_gpu:
            return tuple(_without(way, "a CPU has no counters of this kind", "dram_bytes") for way in ways)
        from portkit.run.toggle.gpu import count_here  # noqa: PLC0415 - needs Triton, which a CPU may lack

        found = count_here(self.request, self.stage)
        return tuple(_with_counted(way, found.get(way.name)) for way in ways)

    def _roofs(self, dtype: str) -> Roofs | None:
        if not self._on_gpu:
            self.nulls["roofs"] = "no ceilings are measured on a CPU"
            return None
        from portkit.run.toggle.gpu import measure_roofs  # noqa: PLC0415 - needs Triton

        self.stage("measuring the ceilings of the device")
        try:
            return measure_roofs(dtype)
        except Exception as error:  # a ceiling that can't be had costs no other figure
            self.nulls["roofs"] = f"no ceilings were measured: {told(error)}"
            return None

    def _found(
        self,
        ways: tuple[Way, ...],
        rounds: Rounds[float],
        counts: Counts | None,
        breaks: tuple[Break, ...] | None,
        dtype: str,
    ) -> Toggled:
        return Toggled(
            model=self.request.model.text,
            inputs=self.request.inputs,
            device=name_of(self.device),
            on_gpu=self._on_gpu,
            torch=str(torch.__version__),
            dtype=dtype,
            ways=ways,
            breaks=breaks,
            flops=counts.flops if counts else None,
            rounds=len(rounds.rounds),
            settled=rounds.settled,
            loading_s=self.loading_s,
            roofs=self._roofs(dtype),
            nulls=self.nulls,
        )

    # ----------------------------------------------------------------------
    # The device

    @property
    def _on_gpu(self) -> bool:
        return self.device == "cuda"

    def _finish(self) -> None:
        finish_on(self.device)()


def _traced_here(calls: Mapping[str, Callable[[], object]]) -> Mapping[str, Traced]:
    from portkit.run.toggle.gpu import traced  # noqa: PLC0415 - needs Triton, which a CPU may lack

    try:
        found = traced(calls)
    except Exception as error:  # a TraceError, or the driver's own
        return dict.fromkeys(calls, Traced(None, None, told(error)))
    return {name: Traced(each.kernel_ms, each.launches) for name, each in found.items()}


def _with_counted(way: Way, counted: CountedWay | None) -> Way:
    if counted is None or way.failed is not None:
        return way
    return _without(way, counted.why, "dram_bytes") if counted.why else replace(way, dram_bytes=counted.dram_bytes)


def _with_kernels(way: Way, traced: Traced) -> Way:
    if traced.why:
        return _without(way, traced.why, "kernel_ms", "launches")
    return replace(way, kernel_ms=traced.kernel_ms, launches=traced.launches)


def _kept(tensors: Tensors) -> Tensors:
    """Copies: a call may write to what an earlier one returned."""
    return tuple(each.clone() for each in tensors)


def _inverse(ratio: Ratio) -> Ratio:
    """How many times faster than eager, of how many times slower."""
    low = None if not ratio.high else round(1 / ratio.high, 6)
    high = None if not ratio.low else round(1 / ratio.low, 6)
    return Ratio(round(1 / ratio.value, 6), low, high)


def _with_time(way: Way, clocks: Mapping[str, Clock], speedups: Mapping[str, Ratio]) -> Way:
    return replace(way, wall=clocks.get(way.name), speedup=speedups.get(way.name))


def _without(way: Way, why: str, *names: str) -> Way:
    return replace(way, nulls={**way.nulls, **dict.fromkeys(names, why)})


def _dtype(model: Model, results: Tensors) -> str:
    """Of most of the weights; of the results, for a model that has none."""
    weights = model.parameters() if isinstance(model, torch.nn.Module) else iter(())
    sizes: dict[torch.dtype, int] = {}
    for each in weights:
        sizes[each.dtype] = sizes.get(each.dtype, 0) + each.numel()
    chosen = max(sizes, key=lambda each: sizes[each]) if sizes else results[0].dtype
    return str(chosen).removeprefix("torch.")
