"""The catalogue of causes, for the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from xlagraph.terminal.style import labelled, paragraph

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rich.console import Console

    from xlagraph.cause.kinds import Kind, Section


def print_kinds(console: Console, sections: Mapping[Section, Sequence[Kind]]) -> None:
    """Lists every kind with its title, a section each."""
    width = max(len(kind.id) for found in sections.values() for kind in found)
    for section, found in sections.items():
        console.print(paragraph(section.value, style="bold"))
        for kind in found:
            console.print(labelled(kind.id, kind.title, 2, width))
        console.print()
    console.print(paragraph("xlagraph cause KIND explains one of them.", style="dim"))


def print_kind(console: Console, kind: Kind) -> None:
    """Explains one kind: meaning, a program before and after, evidence, fix, proof."""
    console.print(paragraph(f"{kind.id}: {kind.title}", style="bold"))
    console.print()
    console.print(paragraph(kind.meaning))
    console.print()
    for heading, program in zip(kind.headings, (kind.before, kind.after), strict=True):
        if program:
            console.print(paragraph(heading, style="dim"))
            for line in program.splitlines():
                console.print(Text(f"    {line}"), soft_wrap=True)
            console.print()
    console.print(labelled("Evidence:", kind.evidence, width=9))
    console.print(labelled("Fix:", kind.fix, width=9))
    console.print(labelled("Proof:", kind.proof, width=9))
