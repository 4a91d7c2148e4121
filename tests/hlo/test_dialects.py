"""Every line of the dialect list: one text each, read both ways, printed, and shown to XLA."""

from __future__ import annotations

import pytest
from hlo_helpers import (
    FIXTURES,
    XLA_REFUSES,
    assert_equal_graphs,
    shape_of_graph,
    xla_module,
    xla_shape_of_graph,
)

from xlagraph.canon.spelling import canonical_shape
from xlagraph.graph import Module, SourceFrame
from xlagraph.hlo import read_module
from xlagraph.hlo.printer import SHORT, print_module
from xlagraph.hlo.verify import verify

DIALECTS = sorted((FIXTURES / "dialects").glob("*.hlo"))
XLA_DIFFERS = {"async_collectives": "XLA wraps custom-call-start in a computation"}


def read(name: str, *, plain: bool = True) -> Module:
    path = FIXTURES / "dialects" / f"{name}.hlo"
    return read_module(path.read_bytes().decode(), path.name, plain=plain)


@pytest.mark.parametrize("path", DIALECTS, ids=lambda path: path.stem)
def test_fast_and_general_way_agree(path):
    fast, general = read(path.stem), read(path.stem, plain=False)
    verify(fast)
    assert_equal_graphs(fast, general)
    assert [fast.line_of(i) for i in range(len(fast))] == [
        general.line_of(i) for i in range(len(general))
    ]


@pytest.mark.parametrize("path", DIALECTS, ids=lambda path: path.stem)
def test_what_is_printed_reads_equal(path):
    module = read(path.stem)
    again = read_module(print_module(module))
    if path.stem == "callee_behind_caller":
        assert sorted(module.names) == sorted(again.names)
    else:
        assert_equal_graphs(module, again)
    short = print_module(module, SHORT)
    assert print_module(read_module(short), SHORT) == short


@pytest.mark.parametrize("path", DIALECTS, ids=lambda path: path.stem)
def test_xla_reads_the_same_and_accepts_what_is_printed(path):
    text = path.read_bytes().decode()
    if path.stem in XLA_REFUSES:
        pytest.skip(XLA_REFUSES[path.stem])
    module = read(path.stem)
    if path.stem not in XLA_DIFFERS:
        assert shape_of_graph(module) == xla_shape_of_graph(text)
    printed = print_module(module)
    assert xla_shape_of_graph(printed) == xla_shape_of_graph(text)
    assert xla_module(print_module(module, SHORT)).name == "module"


def test_nested_operands_become_instructions_with_names_of_their_own():
    module = read("nested_operands")
    assert list(module.names) == ["x", "negate.0", "abs.0", "multiply.0", "r"]
    assert module.operands[4] == (1, 3)


def test_compact_tuple_elements_are_made_once():
    module = read("compact_tuple_element")
    assert list(module.opcodes).count("get-tuple-element") == 3
    assert module.shapes[1:4] == ["(f32[2]{0}, f32[2]{0})", "f32[2]{0}", "f32[2]{0}"]


def test_shapes_left_out_follow_from_the_operands():
    module = read("shape_left_out")
    assert module.shapes[1:] == [
        "f32[4]{0}",
        "f32[4]{0}",
        "pred[4]{0}",
        "f32[4]{0}",
        "(f32[4]{0}, f32[4]{0})",
    ]


@pytest.mark.parametrize(
    ("line", "shape"),
    [
        ("tanh(p)", "f32[4,2]{1,0}"),
        ("compare(p, p), direction=EQ", "pred[4,2]{1,0}"),
        ("select(c, p, p)", "f32[4,2]{1,0}"),
        ("transpose(p), dimensions={1,0}", "f32[2,4]{0,1}"),
        ("complex(p, p)", "c64[4,2]{1,0}"),
        ("real(z)", "f32[4,2]{1,0}"),
        ("get-tuple-element(t), index=1", "f32[4,2]{1,0}"),
        ("call(p), to_apply=f", "f32[3]"),
        ("conditional(b, p, p), true_computation=f, false_computation=f", "f32[3]"),
        ("while(p), condition=g, body=h", "f32[4,2]{1,0}"),
        ("after-all()", "token[]"),
        ("partition-id()", "u32[]"),
        ("dot(p, p), lhs_contracting_dims={0}, rhs_contracting_dims={0}", ""),
    ],
)
def test_shapes_follow_as_in_xla(line, shape):
    """What is not known here is left open, and a signature with it."""
    text = (
        "HloModule m\nf {\n  x = f32[4,2]{1,0} parameter(0)\n"
        '  ROOT y = f32[3] custom-call(x), custom_call_target="t"\n}\n'
        "g {\n  x = f32[4,2]{1,0} parameter(0)\n  ROOT y = pred[] constant(true)\n}\n"
        "h {\n  x = f32[4,2]{1,0} parameter(0)\n  ROOT y = f32[4,2]{1,0} negate(x)\n}\n"
        "ENTRY e {\n  p = f32[4,2]{1,0} parameter(0)\n  c = pred[4,2]{1,0} parameter(1)\n"
        "  z = c64[4,2]{1,0} parameter(2)\n  t = (s32[], f32[4,2]{1,0}) parameter(3)\n"
        f"  b = pred[] parameter(4)\n  ROOT r = {line}\n}}\n"
    )
    module = read_module(text)
    root = module.entry_computation.root
    assert module.shapes[root] == shape
    printed = print_module(module)
    assert "opaque" not in printed
    assert xla_module(printed).to_string() == xla_module(text).to_string()
    if shape:
        (said,) = [s for s in xla_module(text).to_string().split("\n") if "ROOT %r" in s]
        assert canonical_shape(said.split(" = ")[1].rpartition(line.partition("(")[0])[0].strip())
        assert f" = {canonical_shape(shape)} " in said


def test_space_in_shapes_is_not_kept():
    module = read("spaced_shapes")
    assert list(module.shapes[:2]) == ["f32[2,3]{1,0}", "f32[3,2]{1,0}"]
    assert module.shapes[3] == "(f32[2,3]{1,0}, f32[])"
    assert verify(module) is None


def test_an_instruction_alone_makes_its_parameters():
    module = read("instruction_of_named_types")
    entry = module.entry_computation
    assert [module.names[p] for p in entry.parameters] == ["p0", "p1"]
    first, second = entry.parameters
    assert module.operands[entry.root] == (first, second, first)


def test_body_and_condition_stand_in_one_order():
    text = (
        "HloModule m\nb {\n  ROOT x = f32[] parameter(0)\n}\n"
        "c {\n  y = f32[] parameter(0)\n  ROOT z = pred[] constant(false)\n}\n"
        "ENTRY e {\n  p = f32[] parameter(0)\n  ROOT w = f32[] while(p), {}\n}\n"
    )
    for plain in (True, False):
        one = read_module(text.replace("{}", "condition=c, body=b"), plain=plain)
        other = read_module(text.replace("{}", "body=b, condition=c"), plain=plain)
        assert one.callees == other.callees


def test_inline_computations_become_computations():
    module = read("inline_computations")
    assert [c.name for c in module.computations] == [
        "inline.0",
        "inline.1",
        "inline.2",
        "inline.3",
        "main",
    ]
    conditional = list(module.names).index("c")
    assert module.callees[conditional] == (1, 3)
    assert module.line_of(module.computations[3].root) == 15


def test_without_entry_and_root_the_last_ones_count():
    module = read("no_entry_no_root")
    assert module.entry_computation.name == "last"
    assert [module.names[c.root] for c in module.computations] == ["r", "r"]


def test_root_in_the_middle_is_the_root():
    module = read("root_in_the_middle")
    assert module.names[module.entry_computation.root] == "r"


def test_strings_keep_brackets_quotes_and_line_ends():
    module = read("strings")
    values = dict(module.attributes[1].items)
    assert values["custom_call_target"] == r'"quote \" brace } comma , slash // end"'
    assert values["backend_config"] == '"line one\nline two }\n"'
    assert dict(module.attributes[2].items)["custom_call_target"] == "'single \"quoted\"'"
    assert [module.line_of(i) for i in range(3)] == [4, 5, 8]


def test_execution_threads_are_kept():
    module = read("execution_thread")
    assert [c.suffix for c in module.computations] == [
        'execution_thread="side"',
        'execution_thread="main"',
    ]


def test_header_fields_stay_verbatim():
    fields = read("header_fields").header_fields
    assert fields["input_output_alias"] == "{ {}: (0, {}, may-alias) }"
    assert fields["replica_count"] == "4"
    assert list(read("header_tables_unknown").header_fields) == [
        "origin_recovery_table",
        "debug_attributes",
        "some_new_field",
    ]


def test_stack_frames_are_resolved_innermost_first():
    metadata = read("stack_frames").metadata(1)
    assert metadata is not None
    assert metadata.op_name == "jit(f)/neg"
    assert metadata.frames == (
        SourceFrame("model.py", 153, "forward"),
        SourceFrame('train "final".py', 12, "main"),
    )


def test_literals_stay_verbatim():
    module = read("literals")
    payloads = {module.names[number]: payload for number, payload in module.payloads.items()}
    assert payloads["a"] == "{ { /*i0=0*/ {-1} }, { {4.1} } }"
    assert payloads["b"] == "{...}"
    assert payloads["d"] == "-nan"
    assert payloads["f"] == "{(1, 2), (3, -4)}"
    assert payloads["k"] == "({1, 2}, 3)"
    assert payloads["l"] == "{ { 1, 2 },\n    { 3, 4 } }"
    assert read("nan_payload").payloads == {0: "{-nan(0x7f), nan(0x1)}"}


def test_control_predecessors_are_edges():
    module = read("control_predecessors")
    assert module.controls == {2: (1,), 3: (1, 2)}
    assert (2, 3, {"position": -1}) in module.to_networkx().edges(data=True)


def test_called_computations_are_linked_in_attribute_order():
    module = read("called_computations")
    names = {
        module.names[caller]: [module.computations[callee].name for callee in callees]
        for caller, callees in module.callees.items()
    }
    assert names == {
        "w": ["cond", "step"],
        "c": ["one_branch", "other_branch"],
        "d": ["one_branch", "other_branch"],
        "s": ["ge", "sum"],
        "u": ["one_branch", "other_branch"],
        "r": ["one_branch"],
    }


@pytest.mark.parametrize(
    ("text", "instruction", "key", "value"),
    [
        ("sharding", 2, "sharding", "{devices=[2,1,2]<=[2,2]T(1,0) last_tile_dim_replicate}"),
        ("sharding", 4, "sharding", '{replicated metadata={op_name="x, y"}}'),
        ("named_sharding", 0, "sharding", "{mesh['a'=2,'b'=2], [{'a'}, {'b'}]}"),
        ("replica_groups", 6, "replica_groups", "[2,2]<=[4]"),
        ("replica_groups", 7, "replica_groups", "[2,2]<=[2,2]T(1,0)"),
        ("replica_groups", 8, "source_target_pairs", "{{0,1},{1,2},{2,3},{3,0}}"),
        ("mesh_replica_groups", 4, "replica_groups", "mesh['a'=2,'b'=2] {'b'}"),
        ("named_mesh_replica_groups", 4, "replica_groups", "@mesh<a=2,b=2> {a}"),
        ("windows_and_slices", 2, "window", "{size=3x3 pad=1_1x1_1}"),
        ("windows_and_slices", 2, "dim_labels", "b01f_01io->b01f"),
        ("windows_and_slices", 5, "padding", "0_0x0_0x-1_-1_0x0_0"),
        ("windows_and_slices", 6, "slice", "{[0:1], [0:8:2], [0:8], [0:8]}"),
        ("custom_calls", 2, "output_to_operand_aliasing", "{{0}: (0, {}), {1}: (1, {})}"),
        ("custom_calls", 2, "backend_config", "{n = 1 : i32}"),
        ("custom_calls", 4, "literal", "s32[2]{0} {1, 2}"),
        ("attribute_values", 0, "frontend_attributes", '{a={n = 1 : i32},b="x, y"}'),
        ("attribute_values", 1, "backend_config", '{"flag":true,"list":[{"x":"}"}]}'),
        ("origin", 2, "origin", '{({"v3" {0}}, {"v3" {1}})}'),
        ("unknown_things", 1, "brand_new_attribute", "[1,2]<=[2]T(0)"),
        ("unknown_things", 1, "x.y-z", "{{1},{2}}"),
    ],
)
def test_attribute_values_stay_verbatim(text, instruction, key, value):
    assert read(text).attributes[instruction].get(key) == value
