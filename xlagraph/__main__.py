"""``python -m xlagraph``: the command, for an interpreter whose scripts are not on the path."""

from __future__ import annotations

from xlagraph.cli import main

main()
