"""Plain tables: aligned on a terminal, cells between tabs where another program reads them."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from xlagraph.terminal.style import printable

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

SHORT = 12
"""Characters of a cell in a column that may be cut."""


def print_table(
    head: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    cut: Collection[str] = (),
    right: Collection[str] = (),
) -> None:
    """Prints rows under their headings.

    On a terminal columns without any content are left out, and cells of the columns that `cut`
    names are shortened; columns in `right` are aligned there. A pipe gets everything.
    """
    texts = [[printable(cell) for cell in row] for row in rows]
    if not sys.stdout.isatty():
        print("\n".join("\t".join(row) for row in (list(head), *texts)))
        return
    kept = [k for k in range(len(head)) if any(row[k] for row in texts)]
    shown = [[row[k][:SHORT] if head[k] in cut else row[k] for k in kept] for row in texts]
    shown = [[head[k] for k in kept], *shown]
    widths = [max(len(row[place]) for row in shown) for place in range(len(kept))]
    for row in shown:
        cells = [
            cell.rjust(width) if head[k] in right else cell.ljust(width)
            for k, cell, width in zip(kept, row, widths, strict=True)
        ]
        print("  ".join(cells).rstrip())
