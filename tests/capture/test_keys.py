"""What makes a cache key, and which graph a hit ran that shares its size with another."""

import pytest

from xlagraph.capture.tensors.keys import module_key
from xlagraph.facts.program.keys import key_difference
from xlagraph.run.reader import read_run
from xlagraph.runs.explain import explain_run

SAME_VIEW = """
import torch, torch_xla
x, y = torch.randn(8, 8, device="xla"), torch.randn(8, 8, device="xla")
torch_xla.sync()
for k in range(6):
    a = x * 2.5 + y
    b = (x.view(8, 8) if k == 3 else x) * 3.5 + y  # a view that changes nothing
    torch_xla.sync()
"""

EQUAL_SIZES = """
import torch, torch_xla
x = torch.randn(8, 8, device="xla")
torch_xla.sync()
for k in range(6):
    y = torch.sin(x) if k % 2 else torch.cos(x)
    torch_xla.sync()
"""

ASKING = """
import sys, torch, torch_xla
import torch_xla.debug.metrics as met
xlac = torch_xla._XLAC
x = torch.randn(8, 8, device="xla")
torch_xla.sync()
for k in range(4):
    torch_xla.core.xla_model.wait_device_ops()  # its threads count too
    outputs = [torch.sin(x) * k for k in range(2, 5)]
    if len(sys.argv) > 1:
        before = {name: met.counter_value(name) for name in met.counter_names()}
        hashes = [xlac._get_graph_hash([one]) for one in outputs]
        xlac._get_graph_hash(outputs), xlac._get_xla_sharding_specs(outputs)
        assert all(xlac._check_tensor_need_materialization(outputs))
        assert before == {name: met.counter_value(name) for name in met.counter_names()}
    torch_xla.sync()
print(met.counter_value("UncachedCompile"), met.counter_value("CachedCompile"))
"""


@pytest.mark.torch_xla
def test_asking_for_hashes_changes_nothing(run_program, tmp_path):
    said = []
    for arguments in ((), ("ask",)):
        file = tmp_path / f"analysis-{len(said)}"
        done = run_program(ASKING, *arguments, PT_XLA_DEBUG_LEVEL="1", PT_XLA_DEBUG_FILE=str(file))
        hashes = [line for line in file.read_text().splitlines() if "Graph Hash" in line]
        said.append((done.stdout, hashes))
    assert said[0] == said[1]
    assert said[0][0].split() == ["2", "3"]


@pytest.mark.torch_xla
def test_a_view_changes_one_outputs_hash_and_no_instruction(run_program, tmp_path):
    run_program(SAME_VIEW, XLAGRAPH="1")
    run = read_run(tmp_path / "xlagraph-run")
    (process,) = run.processes
    _, first, again = process.graphs
    assert first.digest == again.digest
    keys = [dict(graph.key) for graph in (first, again)]
    assert keys[0]["graph_hash"] != keys[1]["graph_hash"]
    roots = [key["root_hashes"].split() for key in keys]
    assert [a == b for a, b in zip(*roots, strict=True)] == [True, False]
    differing = {name for name in keys[0] if keys[0][name] != keys[1][name]}
    hashes = {"graph_hash", "computation_hash", "root_hashes"} & set(keys[0])  # one is new in 2.7
    assert differing == {*hashes, "live_tensors"}
    explained = explain_run(run)
    (problem,) = [group for group in explained.groups if not group.expected]
    assert (problem.kind.id, problem.compiles) == ("same-graph", 1)
    assert "the root hash of output 1, 10 IR nodes against 11; the same: parameters" in (
        str(problem.title)
    )


@pytest.mark.torch_xla
def test_hits_of_graphs_of_one_size_are_told_apart_while_armed(run_program, tmp_path):
    run_program(EQUAL_SIZES, XLAGRAPH="1", XLAGRAPH_ARM_STEPS="9")
    (process,) = read_run(tmp_path / "xlagraph-run").processes
    steps = process.syncs[1:]
    assert [step.outcome for step in steps] == ["compile"] * 2 + ["hit"] * 4
    assert len({step.fingerprint for step in steps}) == 1
    ran = [step.graphs for step in steps]
    assert ran == [ran[0], ran[1]] * 3
    assert ran[0] != ran[1]
    assert all(step.graph_is_inferred for step in steps[2:])


# The first step of this program has a node less than later ones, though its hash is the same.
TRAINING = """
import torch, torch_xla
torch.manual_seed(0)
nn = torch.nn
model = nn.Sequential(nn.Linear(8, 9), nn.ReLU(), nn.Linear(9, 4)).to("xla")
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(30):
    x = torch.ones(SIZE, 8).to("xla")
    model(x).pow(2).mean().backward()
    optimizer.step()
    optimizer.zero_grad()
    torch_xla.sync()
"""


@pytest.mark.torch_xla
def test_hits_of_a_graph_whose_size_changes_are_named(run_program, tmp_path):
    run_program(TRAINING.replace("SIZE", "32"), XLAGRAPH="1")
    (process,) = read_run(tmp_path / "xlagraph-run").processes
    graph, *hits = [sync for sync in process.syncs if sync.entry == "sync"][-30:]
    assert graph.outcome == "compile"
    assert graph.fingerprint != hits[0].fingerprint
    assert {hit.graphs for hit in hits} == {graph.graphs}


@pytest.mark.torch_xla
def test_hits_of_graphs_of_one_size_are_not_guessed(run_program, tmp_path):
    run_program(TRAINING.replace("SIZE", "8 if step % 5 == 4 else 32"), XLAGRAPH="1")
    (process,) = read_run(tmp_path / "xlagraph-run").processes
    steps = [sync for sync in process.syncs if sync.entry == "sync"][-30:]
    full, short = steps[0].graphs, steps[4].graphs
    assert len({step.fingerprint for step in steps[5:]}) == 1
    assert full != short
    for number, step in enumerate(steps):
        right = short if number % 5 == 4 else full
        assert step.graphs == right if number < 21 else step.graphs in ((), right), number


HEADER = (
    b"HloModule m.1, input_output_alias={ {0}: (1, {}, may-alias) }, buffer_donor={ (2, {}) }, "
    b"entry_computation_layout={(f32[8]{0}, f32[4]{0}, f32[])->(f32[4]{0})}\n\nENTRY e {\n}\n"
)


def test_key_of_a_header():
    key = dict(module_key(HEADER))
    other_donor = dict(module_key(HEADER.replace(b"(2, {})", b"(0, {})")))
    other_shape = dict(module_key(HEADER.replace(b"f32[4]{0}, f32[]", b"f32[5]{0}, f32[]")))
    assert other_donor["parameters"] == key["parameters"]
    assert other_donor["donors"] != key["donors"]
    assert other_shape["parameters"] != key["parameters"]
    assert other_shape["donors"] == key["donors"]
    assert dict(module_key(b"HloModule m\n")) == {"parameters": "none", "donors": "none"}


@pytest.mark.parametrize(
    ("a", "b", "said"),
    [
        ({}, {"donors": "1"}, ""),
        ({"donors": "1"}, {"donors": "1"}, ""),
        ({"donors": "1"}, {"donors": "2"}, "In the key differ: donors and aliases."),
        (
            {"root_hashes": "a b c -", "flags": "1"},
            {"root_hashes": "a x y z", "flags": "1"},
            "In the key differ: the root hashes of outputs 1, 2; the same: flags.",
        ),
        (
            {"root_hashes": "a b", "ir_nodes": "5"},
            {"root_hashes": "a b", "ir_nodes": "6"},
            "In the key differ: 5 IR nodes against 6; the same: root hashes.",
        ),
        (
            {"root_hashes": "a b"},
            {"root_hashes": "c d"},
            "In the key differ: the root hashes of all outputs.",
        ),
        (
            {"root_hashes": " ".join("abcdefghij")},
            {"root_hashes": " ".join("abjihgfedc")},
            "In the key differ: the root hashes of outputs 2, 3, 4, 5, 6, 7 and 2 more.",
        ),
    ],
)
def test_what_differs_in_words(a, b, said):
    assert key_difference(a, b) == said
