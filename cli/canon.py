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
DIGEST = ("digest", "level", "forgives")


@click.command(epilog="SPEC as for `xlagraph diff`. Exit code: 0, or 2 for bad input.")
@click.argument("spec")
@click.option(
    "--level",
    type=click.Choice(tuple(LEVELS)),
    metavar="LEVEL",
    default="parameter-order",
    show_default=True,
    help="What the text forgives; each level forgives what those before it do: "
    + ", ".join(LEVELS)
    + ".",
)
@click.option("--digests", is_flag=True, help="Print the digest of every level instead.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON (docs/json.md) instead of text.")
def command(spec: str, level: str, *, digests: bool, as_json: bool) -> None:
    """Print the canonical text of a module: the same text for the same computation.

    Names, numbering and order are made uniform, so that the text can be committed and compared.
    """
    from xlagraph.canon.form import canonical_lines, level_digests
    from xlagraph.canon.labels import Level
    from xlagraph.inputs import open_module

    module = open_module(spec).module
    if digests:
        names = [(one.level.name.lower().replace("_", "-"), one) for one in level_digests(module)]
        rows = [(one.digest, name, LEVELS[name]) for name, one in names]
        found: dict[str, object] = {
            "digests": [dict(zip(DIGEST, row, strict=True)) for row in rows]
        }
        lines = [f"{digest}  {name:<20} {forgives}" for digest, name, forgives in rows]
    else:
        lines = list(canonical_lines(module, Level[level.upper().replace("-", "_")]))
        found = {"level": level, "lines": lines}
    if as_json:
        import json

        click.echo(json.dumps({"spec": spec, "module": module.name, **found}, indent=2))
        return
    for line in lines:
        click.echo(line)
