"""``xlagraph export MODULE -o FILE``."""

from __future__ import annotations

from pathlib import Path

import click

SUFFIXES = ("graphml", "dot", "json")


@click.command(epilog="MODULE as for `xlagraph diff`. Exit code: 0 written, 2 bad input.")
@click.argument("module")
@click.option(
    "-o",
    "--output",
    required=True,
    type=click.Path(dir_okay=False, path_type=Path),
    help="The file to write; its suffix says the format: .graphml, .dot or .json.",
)
@click.option("--around", metavar="NAME", default="", help="Only what is near this instruction.")
@click.option(
    "--hops",
    type=click.IntRange(min=0),
    default=3,
    show_default=True,
    help="With --around: how many edges away, operands and users alike.",
)
def command(module: str, *, output: Path, around: str, hops: int) -> None:
    """Write MODULE as a graph for other tools: GraphML, Graphviz DOT, or networkx JSON."""
    suffix = output.suffix.removeprefix(".")
    if suffix not in SUFFIXES:
        raise click.UsageError(f"{output}: the suffix must be one of .{', .'.join(SUFFIXES)}")
    from xlagraph.export import FORMATS, graph_of
    from xlagraph.inputs import open_module
    from xlagraph.output import write_whole

    graph = graph_of(open_module(module).module, around, hops)
    write_whole(output, FORMATS[suffix](graph))
    click.echo(f"{output}: {len(graph)} instructions, {graph.number_of_edges()} edges")
