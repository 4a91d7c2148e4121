"""A module, or what stands around one instruction, as a file for other graph tools."""

from __future__ import annotations

import json
from difflib import get_close_matches
from io import BytesIO
from typing import TYPE_CHECKING, TypeAlias

import networkx as nx
import pydot

from xlagraph.errors import SpecError

if TYPE_CHECKING:
    from collections.abc import Callable

    from xlagraph.graph import Module

    Graph: TypeAlias = nx.MultiDiGraph[int]


MAX_NEAR = 5
"""Names that are proposed for one that is not there."""


def graph_of(module: Module, around: str = "", hops: int = 3) -> Graph:
    """The module as a graph, operand to user; only what is near one instruction, if named.

    Args:
        module: the module.
        around: an instruction's name; the nodes that at most `hops` edges lead to, followed
            either way, are kept.
        hops: how many edges.

    Raises:
        SpecError: no instruction has this name.
    """
    graph = module.to_networkx()
    if not around:
        return graph
    name = around.removeprefix("%")
    starts = [i for i, known in enumerate(module.names) if known == name]
    if not starts:
        raise SpecError(f"{module.file}: no instruction is called {name!r}{_near(module, name)}")
    near = {
        node
        for start in starts
        for node in nx.ego_graph(graph, start, radius=hops, undirected=True)
    }
    return graph.subgraph(near).copy()


def _near(module: Module, name: str) -> str:
    """A few names like this one: those with the nearest numbers behind the same word, if any."""
    stem, number = _numbered(name)
    own = [known for known in module.names if _numbered(known)[0] == stem]
    own.sort(key=lambda known: abs(_numbered(known)[1] - number))
    near = own[:MAX_NEAR] or get_close_matches(name, module.names, n=MAX_NEAR)
    return f"; near it: {', '.join(near)}" if near else ""


def _numbered(name: str) -> tuple[str, int]:
    stem, _, number = name.rpartition(".")
    return (stem, int(number)) if stem and number.isdecimal() else (name, 0)


def as_json(graph: Graph) -> str:
    """Node-link data, as ``networkx.node_link_graph`` reads it."""
    return json.dumps(nx.node_link_data(graph, edges="edges"), indent=1) + "\n"


def as_graphml(graph: Graph) -> str:
    """GraphML, for Gephi, yEd, Cytoscape and igraph."""
    stream = BytesIO()
    nx.write_graphml_xml(_printable(graph), stream)
    return stream.getvalue().decode() + "\n"


def as_dot(graph: Graph) -> str:
    """DOT, for Graphviz; control edges are dashed."""
    dot = pydot.Dot(_quoted(str(graph.graph.get("name", ""))), graph_type="digraph")
    for node, data in _printable(graph).nodes(data=True):
        label = f"{data['name']}\n{data['opcode']} {data['shape']}"
        source = _quoted(data["source"])
        dot.add_node(pydot.Node(str(node), label=_quoted(label), shape="box", tooltip=source))
    for operand, user, position in graph.edges(data="position"):
        ends = str(operand), str(user)
        is_control = position < 0
        dot.add_edge(
            pydot.Edge(*ends, style="dashed") if is_control else pydot.Edge(*ends, label=position)
        )
    text: str = dot.to_string()
    return text


def _quoted(text: str) -> str:
    """A quoted string of the DOT language, whatever stands in it."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def _printable(graph: Graph) -> Graph:
    """The graph with texts that XML and DOT can hold."""
    shown = graph.copy()
    for _, data in shown.nodes(data=True):
        for key, value in data.items():
            data[key] = "".join(c if c.isprintable() else "\ufffd" for c in str(value))
    return shown


FORMATS: dict[str, Callable[[Graph], str]] = {
    "graphml": as_graphml,
    "dot": as_dot,
    "json": as_json,
}
