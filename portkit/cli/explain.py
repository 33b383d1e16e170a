"""``portkit explain``: what a rule means."""

from __future__ import annotations

import click

from portkit.analysis.findings import rule, rules
from portkit.cli.outputs import terminal_width
from portkit.render.findings import explained


@click.command("explain", short_help="What a finding means: why, what it costs, what to change.")
@click.argument("rule_id", metavar="[RULE]", required=False)
def command(rule_id: str | None) -> None:
    """What a finding means: why, what it costs, what to change.

    RULE is the id of a rule, such as PK203; without one, all are listed.
    """
    if rule_id:
        click.echo(explained(rule(rule_id), terminal_width()))
        return
    for each in rules():
        click.echo(f"{each.id}  {each.severity.value:<7}  {each.title}")
