"""Bad input ends in `InputError` with its exact place, and in time linear in its size."""

from __future__ import annotations

import re

import pytest

from xlagraph.errors import InputError
from xlagraph.hlo import read_module, read_shape
from xlagraph.hlo.scan import MAX_DEPTH

HEAD = "HloModule m\n\nENTRY e {\n"


@pytest.mark.parametrize(
    ("text", "line", "column", "message"),
    [
        ("", 1, 1, "expected a computation"),
        ("HloModule m", 1, 12, "expected a computation"),
        ("HloModule \n ,", 2, 2, "expected the module's name"),
        ("HloModule m, x\n", 1, 14, "expected an attribute (key=value)"),
        ("HloModule m, x={\n", 2, 1, "expected '}'"),
        ("HloModule m\n\n!", 3, 1, "expected a shape and an opcode"),
        (HEAD + "}", 4, 1, "expected an instruction; the computation is empty"),
        (HEAD + "  p = f32[] parameter(0)\n", 5, 1, "expected '}' at the end of the computation"),
        (
            HEAD + "  p = f32[] parameter(0)\n  r = f32[] add(p, q)\n}",
            5,
            20,
            "unknown operand 'q'; it is not defined above",
        ),
        (
            HEAD + "  r = f32[] negate(r)\n}",
            4,
            20,
            "unknown operand 'r'; it is not defined above",
        ),
        (
            HEAD + "  p = f32[] parameter(0)\n  p = f32[] negate(p)\n}",
            5,
            3,
            "another instruction is called 'p'",
        ),
        (
            HEAD + "  p = f32[] parameter(0)\n  r = f32[] negate(p p)\n}",
            5,
            22,
            "expected ',' or ')' behind an operand",
        ),
        (HEAD + "  p = f32[] parameter(x)\n}", 4, 23, "expected a parameter number"),
        (HEAD + f"  p = f32[] parameter({'9' * 5000})\n}}", 4, 23, "expected a parameter number"),
        (HEAD + "  p = f32[] parameter(1)\n}", 4, 3, "there is no parameter 0"),
        (
            HEAD + "  p = f32[] parameter(0)\n  q = f32[] parameter(2)\n}",
            5,
            3,
            "there is no parameter 1",
        ),
        (
            HEAD + "  p = f32[] parameter(0)\n  q = f32[] parameter(0)\n}",
            5,
            3,
            "there is another parameter 0 above",
        ),
        (HEAD + "  p = f32[2,x] parameter(0)\n}", 4, 11, None),
        (HEAD + "  p = f32[]{0 parameter(0)\n}", 5, 2, "expected an opcode"),
        (HEAD + "  p = f32[] (0)\n}", 4, 13, "expected an opcode"),
        (HEAD + "  p = f32[] negate\n}", 5, 1, "expected '(' behind the opcode 'negate'"),
        (HEAD + "  p f32[] negate()\n}", 4, 5, None),
        (HEAD + "  p = f32[] iota(), x\n}", 4, 21, "expected an attribute (key=value)"),
        (HEAD + "  p = f32[] iota(), x=\n}", 5, 1, "expected the value of 'x'"),
        (HEAD + '  p = f32[] iota(), x="a\n}', 4, 23, "string is not closed"),
        (HEAD + "  p = f32[] iota(), x={[1}]\n}", 4, 26, "expected ']', found '}'"),
        (HEAD + "  p = f32[] iota() /* x\n}", 4, 20, None),
        (
            HEAD + "  ROOT p = f32[] iota()\n  ROOT q = f32[] iota()\n}",
            5,
            8,
            "the computation has another ROOT above",
        ),
        (
            HEAD + "  p = f32[] iota(), control-predecessors={z}\n}",
            4,
            43,
            "unknown instruction 'z'; it is not defined above",
        ),
        (
            HEAD + "  p = f32[] call(), to_apply=gone\n}",
            4,
            30,
            "unknown computation 'gone'",
        ),
        (
            HEAD + "  p = f32[] call(), to_apply=e\n}",
            4,
            30,
            "computation 'e' calls itself, directly or through others",
        ),
        (
            "a {\n  x = f32[] call(), to_apply=b\n}\nb {\n  y = f32[] call(), to_apply=a\n}\n",
            5,
            30,
            "computation 'a' calls itself, directly or through others",
        ),
        (
            "a {\n  x = f32[] iota()\n}\na {\n  x = f32[] iota()\n}\n",
            4,
            1,
            "another computation is called 'a'",
        ),
        (
            "ENTRY a {\n  x = f32[] iota()\n}\nENTRY b {\n  x = f32[] iota()\n}\n",
            4,
            1,
            "there is another ENTRY computation above",
        ),
        (
            "a {\n  x = f32[] iota()\n}\nwhat is this",
            4,
            1,
            "expected a computation: name (signature) -> shape {",
        ),
        (
            HEAD + "  p = f32[4]{0} parameter(0)\n  n = f32[4]{0} negate(f32[5]{0} p)\n}",
            5,
            24,
            "operand 'p' is defined above with another shape, f32[4]{0}",
        ),
        (
            HEAD + "  p = f32[4]{0} parameter(0)\n  n = s32[4]{0} negate(s32[4]{0} %p)\n}",
            5,
            24,
            "operand 'p' is defined above with another shape, f32[4]{0}",
        ),
        (
            HEAD + "  p = (f32[4], f32[]) parameter(0)\n"
            "  g = f32[4] get-tuple-element(p), index=2\n}",
            5,
            36,
            "expected an index below 2",
        ),
        (
            HEAD + "  p = f32[4] parameter(0)\n  g = f32[4] get-tuple-element(p), index=0\n}",
            5,
            36,
            "expected a tuple to take a part of",
        ),
        (
            HEAD + "  p = (f32[4]) parameter(0)\n  g = f32[4] get-tuple-element(p)\n}",
            5,
            6,
            "expected an index",
        ),
        (
            HEAD + "  p = (f32[4], f32[]) parameter(0)\n  n = f32[4] negate(p#2)\n}",
            5,
            21,
            "expected an index below 2",
        ),
        (
            HEAD + "  c = f32[4]{0} constant({1, 2, 3})\n}",
            4,
            26,
            "expected 4 values for f32[4]{0}, found 3",
        ),
        (
            HEAD + "  c = f32[2,2]{1,0} constant({1, 2, 3, 4})\n}",
            4,
            30,
            "expected the values of f32[2,2]{1,0} in braces by dimension",
        ),
        (HEAD + "  c = f32[] constant({1})\n}", 4, 22, None),
        (HEAD + "  c = f32[2] constant()\n}", 4, 23, "expected 2 values for f32[2], found 0"),
        (HEAD + "  c = f32[] constant()\n}", 4, 22, "expected 1 values for f32[], found 0"),
        (
            HEAD + "  c = (f32[2], s32[]) constant(({1, 2}, 3, 4))\n}",
            4,
            32,
            "expected 2 literals for (f32[2], s32[])",
        ),
        (
            HEAD + "  c = (f32[2], s32[2]) constant(({1, 2}, {3}))\n}",
            4,
            42,
            "expected 2 values for s32[2], found 1",
        ),
        (
            HEAD + "  c = c64[2]{0} constant({(1, 2), (3, 4), (5, 6)})\n}",
            4,
            26,
            "expected 2 values for c64[2]{0}, found 3",
        ),
    ],
)
@pytest.mark.parametrize("plain", [True, False])
def test_errors_tell_the_place_and_what_was_expected(text, line, column, message, plain):
    with pytest.raises(InputError) as caught:
        read_module(text, "dump.hlo", plain=plain)
    at = caught.value.location
    assert (at.line, at.column) == (line, column)
    if message:
        assert caught.value.message == message
    assert str(caught.value).startswith(f"dump.hlo:{line}:{column}: ")


def test_an_error_shows_the_line_with_a_caret():
    with pytest.raises(InputError) as caught:
        read_module(HEAD + "  p = f32[] negate(q)\n}", "a.hlo", first_line=100)
    assert str(caught.value) == (
        "a.hlo:103:20: unknown operand 'q'; it is not defined above\n"
        "    p = f32[] negate(q)\n"
        "                     ^"
    )


DEEP = 5000


@pytest.mark.parametrize(
    "text",
    [
        HEAD + f"  p = {'(' * DEEP}f32[]{')' * DEEP} parameter(0)\n}}",
        HEAD + f"  p = f32[] constant({'{' * DEEP}1{'}' * DEEP})\n}}",
        HEAD + f"  p = f32[] {'abs(' * DEEP}iota(){')' * DEEP}\n}}",
        HEAD + f"  p = f32[] iota(), x={'[' * DEEP}{']' * DEEP}\n}}",
        HEAD + "  p = f32[] call(), to_apply={ x = f32[] call(), to_apply={" * DEEP,
        "HloModule m, x=" + "{" * DEEP,
    ],
)
def test_depth_is_bounded(text):
    with pytest.raises(InputError, match=f"nested deeper than {MAX_DEPTH} levels"):
        read_module(text)


@pytest.mark.parametrize(
    ("shape", "text"),
    [
        ("f32[2,2]", "{ { 1, 2 }, /*i0=1*/ { 3, 4 } }"),
        ("f32[2]", "{nan(0x7fc001), -nan}"),
        ("c64[1]", "{(nan(0x7fc001), -inf)}"),
        ("c64[]", "(1, 2)"),
        ("f32[1000]", "{...}"),
        ("(f32[1000], s32[])", "{...}"),
        ("(f32[1000], s32[])", "( {...}, 3 )"),
        ("()", "()"),
        ("((), f32[])", "((), 1)"),
        ("f32[2,0,3]", "{ {}, {} }"),
        ("f32[<=2]", "{1, 2}"),
        ("f32[8]", "0"),
    ],
)
@pytest.mark.parametrize("plain", [True, False])
def test_literals_that_fit_their_shape(shape, text, plain):
    module = read_module(HEAD + f"  c = {shape} constant({text})\n}}\n", plain=plain)
    assert module.payloads == {0: text}


def test_operands_may_have_other_layouts_and_bounds():
    text = HEAD + "  p = f32[4,<=2]{1,0} parameter(0)\n  n = f32[4,2] negate(f32[4,2]{0,1} p)\n}"
    assert read_module(text).operands[1] == (0,)


SIZE = 200_000


@pytest.mark.parametrize(
    "text",
    [
        "{" * SIZE,
        "(" * SIZE,
        '"' * SIZE,
        "/*" * SIZE,
        "a" * SIZE,
        "%" * SIZE,
        "a {\n" * (SIZE // 4),
        "a { x = f32[] iota() }\n" * (SIZE // 20),
        "HloModule m, " + "a=b, " * (SIZE // 5),
        HEAD + "  p = f32[] parameter(0), " + "a={" * (SIZE // 3),
        HEAD + "  p = " + "(f32[], " * (SIZE // 8),
        HEAD + "  p = f32[] add(" + "f32[] " * (SIZE // 6) + ")\n}",
        HEAD + "  p = f32[] iota(), metadata={" + '"\\' * (SIZE // 2) + "}\n}",
        HEAD + "  p = f32[" + "1," * (SIZE // 2) + "] iota()\n}",
        HEAD + "  p = f32[] iota()" + " " * SIZE + "x\n}",
        HEAD + "  p = f32[2] constant({" + "1, " * SIZE + "})\n}",
        HEAD + "  p = (f32[]) constant((" + "1 " * SIZE + "))\n}",
        HEAD + "  p = f32[] iota(), backend_config=" + "{" * SIZE + "\n}",
        HEAD + "  p = f32[] add(" + "," * SIZE + "\n}",
    ],
    ids=range(19),
)
@pytest.mark.parametrize("plain", [True, False])
def test_hostile_text_ends_in_an_error(text, plain):
    with pytest.raises(InputError):
        read_module(text, plain=plain)


def test_calls_may_be_long_chains():
    count = 3000
    text = "".join(f"c{i} {{\n  x = f32[] call(), to_apply=c{i + 1}\n}}\n" for i in range(count))
    module = read_module(text + f"c{count} {{\n  x = f32[] iota()\n}}\n")
    assert len(module.computations) == count + 1


@pytest.mark.parametrize("text", ["f32", "f32[", "f32[1,]", "(f32[]", "f32[] x", "f32[]{1"])
def test_what_is_no_shape_is_an_error(text):
    with pytest.raises(InputError):
        read_shape(text)


@pytest.mark.parametrize("plain", [True, False])
@pytest.mark.parametrize(
    ("inside", "expected"),
    [("]op_name=1", "expected '}', found ']'"), ("op_name=1 so00( x", "expected ')', found '}'")],
)
def test_brackets_within_metadata_have_to_close(inside, expected, plain):
    text = (
        "HloModule m\n\nENTRY e {\n  A = f32[4]{0} parameter(0)\n"
        f"  ROOT B = f32[4]{{0}} negate(A), metadata={{{inside}}}\n}}\n"
    )
    with pytest.raises(InputError, match=re.escape(expected)):
        read_module(text, plain=plain)
