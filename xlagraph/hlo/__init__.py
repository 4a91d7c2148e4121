"""Reading HLO: text in any dialect and protobufs to `xlagraph.graph.Module`, and back."""

from xlagraph.hlo.containers import find_entry, load, open_entries
from xlagraph.hlo.forms import read_stored
from xlagraph.hlo.reader import read_module
from xlagraph.hlo.shapes import read_shape

__all__ = ["find_entry", "load", "open_entries", "read_module", "read_shape", "read_stored"]
