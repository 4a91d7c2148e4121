"""``xlagraph canon SPEC``."""

from __future__ import annotations

import click

LEVELS = {
    "names": "forgives names, numbering and metadata",
    "dead-code": "... and dead instructions and computations",
    "duplicate-constants": "... and how often equal constants stand there",
    "parameter-order": "... and the order of entry parameters",
    "output-order": "... and the order of outputs",
    "constant-values": "... and the values of constants",
    "shapes": "... and dimensions and layouts",
}


@click.command()
@click.argument("spec")
@click.option(
    "--level",
    type=click.Choice(tuple(LEVELS)),
    default="parameter-order",
    show_default=True,
    help="What the text forgives; each level forgives what those before it do.",
)
@click.option("--digests", is_flag=True, help="Print the digest of every level instead.")
def command(spec: str, level: str, *, digests: bool) -> None:
    """Print the canonical text of a module: stable, fit to be committed and compared."""
    from xlagraph.canon.form import canonical_lines, level_digests
    from xlagraph.canon.labels import Level
    from xlagraph.inputs import open_module

    module = open_module(spec).module
    if digests:
        for one in level_digests(module):
            name = one.level.name.lower().replace("_", "-")
            click.echo(f"{one.digest}  {name:<20} {LEVELS[name]}")
        return
    for line in canonical_lines(module, Level[level.upper().replace("-", "_")]):
        click.echo(line)
