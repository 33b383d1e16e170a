"""Gives every tensor argument of cases in forms they may not expect; run as a script with the interpreter on.

Reads ``[[path, name], …]`` as JSON from standard input. Writes for each argument and form a line
``[case, argument, form, what came]``: ``same`` where the result was that of the plain argument,
``named`` where an error of the right type named the argument first, else what was wrong.
"""

from __future__ import annotations

import json
import math
import sys

import torch

from portkit.model import CaseSource
from portkit.run.calls import as_outputs
from portkit.run.inputs import InputMaker
from portkit.run.load import load_case


def spread(x):
    """The same values, two elements apart."""
    return torch.stack((x, x), dim=-1)[..., 0]


def gapped(x):
    """The same values in rows further apart."""
    return torch.cat((x, x), dim=-1)[..., : x.shape[-1]]


FORMS = {
    "spread": (spread, ValueError),
    "gapped": (gapped, ValueError),
    "elsewhere": (lambda x: x.to("meta"), ValueError),
    "complex": (lambda x: x.to(torch.complex64), TypeError),
    "list": (lambda x: x.tolist(), TypeError),
}


def copied(given):
    return {name: value.clone() if torch.is_tensor(value) else value for name, value in given.items()}


def equal(a, b):
    return a.shape == b.shape and torch.equal(*(x.contiguous().view(-1).view(torch.uint8) for x in (a, b)))


def came(case, given, name, form):
    change, error = FORMS[form]
    changed = change(given[name])
    try:
        got = as_outputs(case.fused(**(copied(given) | {name: changed})))
    except error as raised:
        return "named" if name in str(raised).replace(",", "").split() else f"{error.__name__}: {raised}"
    except Exception as raised:
        return f"{type(raised).__name__}: {raised}"
    if error is not ValueError or form == "elsewhere":
        return "taken"
    plain = as_outputs(case.fused(**copied(given)))
    return "same" if all(map(equal, got, plain)) else "another result"


def main() -> None:
    for path, name in json.load(sys.stdin):
        case = load_case(CaseSource(name, path=path))
        shape = min(case.small_shapes, key=math.prod)
        given = dict(case.inputs(InputMaker(0, "cpu"), shape, "float32"))
        tensors = [argument for argument, value in given.items() if torch.is_tensor(value)]
        for argument in tensors:
            for form in FORMS if len(tensors) > 1 else FORMS.keys() - {"elsewhere"}:
                print(json.dumps([name, argument, form, came(case, given, argument, form)]), flush=True)


if __name__ == "__main__":
    main()
