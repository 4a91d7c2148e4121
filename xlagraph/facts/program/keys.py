"""Which parts of torch_xla's cache key differ between two graphs, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

UNKNOWN = "-"
MAX_OUTPUTS = 6
_PARTS = {
    "parameters": "parameters",
    "donors": "donors and aliases",
    "shardings": "shardings",
    "device": "device",
    "flags": "flags",
}


def key_difference(a: Mapping[str, str], b: Mapping[str, str]) -> str:
    """A sentence on the parts of the key known on both sides; ``""`` when none is.

    The components are those of ``GraphRecord.key``, and ``ir_nodes``.
    """
    differs, same = _roots(a.get("root_hashes", ""), b.get("root_hashes", ""))
    nodes = a.get("ir_nodes", ""), b.get("ir_nodes", "")
    if all(nodes) and nodes[0] != nodes[1]:
        differs.append(f"{nodes[0]} IR nodes against {nodes[1]}")
    for name, words in _PARTS.items():
        if name in a and name in b:
            (same if a[name] == b[name] else differs).append(words)
    if not differs:
        return ""
    rest = f"; the same: {', '.join(same)}" if same else ""
    return f"In the key differ: {', '.join(differs)}{rest}."


def _roots(a: str, b: str) -> tuple[list[str], list[str]]:
    """What differs and what is the same of the outputs' root hashes."""
    pairs = list(zip(a.split(), b.split(), strict=False))
    known = [k for k, pair in enumerate(pairs) if UNKNOWN not in pair]
    if not known:
        return [], []
    changed = [str(k) for k in known if pairs[k][0] != pairs[k][1]]
    if not changed:
        return [], ["root hashes"]
    if len(changed) == len(pairs):
        return ["the root hashes of all outputs"], []
    if len(changed) == 1:
        return [f"the root hash of output {changed[0]}"], []
    more = f" and {len(changed) - MAX_OUTPUTS} more" if len(changed) > MAX_OUTPUTS else ""
    return [f"the root hashes of outputs {', '.join(changed[:MAX_OUTPUTS])}{more}"], []
