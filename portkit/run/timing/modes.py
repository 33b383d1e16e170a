"""Other states of caches and host, each a column of its own and taken only when asked for."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from portkit.run.timing.events import Call, Functions


def warm(call: Call) -> None:
    """What comes before a sample with warm caches: a call of the same function."""
    call()


def captured(places: Sequence[Functions]) -> tuple[list[Functions], dict[str, str]]:
    """Each function as a replay of a CUDA or HIP graph of it; name → why, for those that have none."""
    graphs: dict[str, list[Call]] = {}
    nulls: dict[str, str] = {}
    for name in places[0]:
        try:
            graphs[name] = [_capture(functions[name]) for functions in places]
        except Exception as error:  # what a captured function raises is its own
            torch.cuda.synchronize()
            nulls[name] = f"its call cannot be captured in a graph: {type(error).__name__}: {_first_line(error)}"
    return [{name: replays[i] for name, replays in graphs.items()} for i in range(len(places))], nulls


def _capture(call: Call) -> Call:
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):  # first calls may allocate or tune, which a capture refuses
        for _ in range(2):
            call()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        call()
    graph.replay()
    torch.cuda.synchronize()
    replay: Call = graph.replay
    return replay


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0]
