"""Data on its way to the page: compact JSON, deflated, in base64.

Base64 holds no character that ends a script element, so no text of a module can.
"""

from __future__ import annotations

import base64
import json
import zlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from xlagraph.report.model import Json


def pack(value: Json) -> str:
    """JSON without spaces, in zlib's format, in base64."""
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=True)
    return base64.b64encode(zlib.compress(text.encode(), 9)).decode()


def unpack(text: str) -> Json:
    """What `pack` packed."""
    value: Json = json.loads(zlib.decompress(base64.b64decode(text)))
    return value
