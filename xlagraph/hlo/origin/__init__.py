"""Where instructions without Python frames come from."""

from xlagraph.hlo.origin.search import Origin, find_origins

__all__ = ["Origin", "find_origins"]
