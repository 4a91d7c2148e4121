"""Reading HLO: text in any dialect to `xlagraph.graph.Module`, and back."""

from xlagraph.hlo.reader import read_module

__all__ = ["read_module"]
