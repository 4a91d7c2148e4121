"""``xlagraph export``: what it writes is what other tools read."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import networkx as nx
import pydot
import pytest
from click.testing import CliRunner

from xlagraph.cli.app import cli
from xlagraph.export import FORMATS, graph_of
from xlagraph.hlo import read_module

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"
ATTENTION = str(FIXTURES / "corpus" / "jax_attention_donated.before.hlo.gz")
HOSTILE = """HloModule "q\\"uote, main

ENTRY e {
  p = f32[4] parameter(0), metadata={source_file="a\\"b\\\\c\x01<&>.py" source_line=3}
  c = f32[4] copy(p), control-predecessors={p}
  ROOT r = f32[4] add(p, c)
}
"""


def export(*arguments: str):
    return CliRunner().invoke(cli, ["export", *arguments])


@pytest.fixture
def module():
    return read_module(HOSTILE.replace('"q\\"uote, ', ""), "h.hlo")


def test_graphml_is_read_back(tmp_path):
    out = tmp_path / "g.graphml"
    result = export(ATTENTION, "-o", str(out))
    assert result.exit_code == 0
    graph = nx.read_graphml(out, node_type=int, force_multigraph=True)
    assert f"{len(graph)} instructions, {graph.number_of_edges()} edges" in result.output
    assert len(graph) > 50
    assert {data["opcode"] for _, data in graph.nodes(data=True)} >= {"dot", "parameter"}


def test_json_is_read_back(tmp_path):
    out = tmp_path / "g.json"
    assert export(ATTENTION, "-o", str(out)).exit_code == 0
    graph = nx.node_link_graph(json.loads(out.read_text()), edges="edges")
    assert nx.is_directed_acyclic_graph(graph)


def test_the_neighbourhood_has_what_the_hops_reach(module):
    near = graph_of(module, "%c", 0)
    assert [data["name"] for _, data in near.nodes(data=True)] == ["c"]
    assert len(graph_of(module, "p", 1)) == 3


@pytest.mark.filterwarnings("ignore::DeprecationWarning:pydot")
@pytest.mark.filterwarnings("ignore:.*deprecated - use:DeprecationWarning")
@pytest.mark.parametrize("suffix", ["graphml", "dot", "json"])
def test_hostile_texts_are_kept_in_their_place(module, suffix):
    text = FORMATS[suffix](graph_of(module))
    if suffix == "graphml":
        graph = nx.parse_graphml(text, node_type=int)
        assert graph.nodes[0]["source"] == 'a"b\\c\ufffd<&>.py:3'
    elif suffix == "dot":
        (dot,) = pydot.graph_from_dot_data(text)
        assert len(dot.get_nodes()) == 3
        assert len(dot.get_edges()) == 4
        assert [e for e in dot.get_edges() if e.get("style") == "dashed"]
    else:
        assert len(json.loads(text)["nodes"]) == 3


@pytest.mark.skipif(not shutil.which("dot"), reason="Graphviz is not installed")
def test_graphviz_reads_the_dot(module):
    text = FORMATS["dot"](graph_of(module))
    drawn = subprocess.run(["dot", "-Tsvg"], input=text, capture_output=True, text=True, check=True)
    assert "<svg" in drawn.stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("-o", "g.png"), "must be one of .graphml, .dot, .json"),
        (("-o", "g.dot", "--around", "nobody"), "no instruction is called 'nobody'"),
        (("-o", "g.dot", "--around", "dot_general.1"), "near it: dot_general.12, dot_general.13"),
        (("-o", "/nowhere/g.dot"), "cannot be written"),
    ],
)
def test_what_cannot_be_done_is_said(arguments, said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = export(ATTENTION, *arguments)
    assert said in result.output + str(result.exception)
    assert result.exit_code != 0
    assert not list(tmp_path.iterdir())
