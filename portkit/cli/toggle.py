"""``portkit toggle``: eager against torch.compile, on the user's own model."""

from __future__ import annotations

import math

import click

from portkit.cli.outputs import terminal_width
from portkit.plan.toggle import ToggleRequest, read_inputs, read_modes, read_subject, read_variant
from portkit.render.toggle import toggle_json, toggle_plain
from portkit.run.toggle.process import toggle

MODES = "default,reduce-overhead,max-autotune"


@click.command("toggle", short_help="Eager against torch.compile, on your own model.")
@click.argument("model", metavar="FILE|MODULE:FUNCTION")
@click.option("--input", "inputs", multiple=True, required=True, metavar="[NAME=]VALUE",
              help="An argument of the model's call, as 'bf16[8,2048]' or 'ids=0 <= i64[1,512] < 32000'.")  # fmt: skip
@click.option("--modes", default=MODES, show_default=True, help="Of torch.compile, with commas; '' for none.")
@click.option("--variant", "variants", multiple=True, metavar="NAME=FILE:FUNCTION", help="Another model beside it.")
@click.option("--device", type=click.Choice(["cpu", "cuda"]), help="[default: a GPU where there is one]")
@click.option("--seconds", type=float, default=10.0, show_default=True, help="Of timing at most, all ways together.")
@click.option("--limit", type=float, default=1800.0, show_default=True, help="Seconds after which all is ended.")
@click.option("--counters", is_flag=True, help="Count bytes of the device's memory, too, under the vendor's profiler.")
@click.option("--json", "as_json", is_flag=True, help="What was found as data.")
def command(  # noqa: PLR0913, PLR0917 (click hands each option over)
    model: str,
    inputs: tuple[str, ...],
    modes: str,
    variants: tuple[str, ...],
    device: str | None,
    seconds: float,
    limit: float,
    counters: bool,
    as_json: bool,
) -> int:
    """Eager against torch.compile, on your own model.

    FUNCTION takes no arguments and returns the model. It is called in a process of its own, its
    forward pass alone, on random inputs: as it is, compiled in several modes, and each --variant,
    in turn, so that what disturbs the clock meets all alike.

    Ends with 1 where a way fails or its result is wrong, and with 2 where the model can't be used.
    """
    for name, value in (("--seconds", seconds), ("--limit", limit)):
        if not (math.isfinite(value) and value > 0):
            raise click.UsageError(f"{name} must be a number of seconds above 0")
    read_inputs(inputs)
    others = tuple(map(read_variant, variants))
    names = [each.name for each in others]
    if len(set(names)) < len(names):
        raise click.UsageError("two variants have the same name")
    chosen = read_modes(modes)
    request = ToggleRequest(read_subject(model), others, inputs, chosen, device, seconds, counters=counters)
    return _run(request, limit, as_json)


def _run(request: ToggleRequest, limit: float, as_json: bool) -> int:
    found = toggle(request, limit, lambda text: click.echo(f"portkit toggle: {text}", err=True))
    click.echo(toggle_json(found) if as_json else toggle_plain(found, terminal_width()))
    fine = all(way.failed is None and (way.agreement is None or way.agreement.right) for way in found.ways)
    return 0 if fine else 1
