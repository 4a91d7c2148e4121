"""A slice at a Python index, written with an index that is sent as data."""

from __future__ import annotations

import pytest

from xlagraph.facts.program.typed_slices import slice_bounds, typed_slice


def typed(text: str, *widths: int, is_written: bool = False) -> str:
    """Of the last line, or of a text in one piece; of what takes 2 or 1 if not said otherwise."""
    lines = dict(enumerate(text.split("\n"), 5))
    taken = {1} if "i + 2" not in text else {2, 3} if "j + 3" in text else {1, 2}
    taken = taken if "[j]" in text or "i + 2" not in text else taken - {1}
    found = typed_slice(lines, 5, frozenset(widths) or taken, is_written=is_written)
    return "\n".join(found.code) if found else ""


READ = {
    "y = x[i:i + 2]": """\
index = torch.arange(i, i + 2).to(x.device)
y = x.index_select(0, index)""",
    "y = x[:, i:i + 2] * 2": """\
index = torch.arange(i, i + 2).to(x.device)
y = x.index_select(1, index) * 2""",
    "y = x[..., i:i + 2]  # some": """\
index = torch.arange(i, i + 2).to(x.device)
y = x.index_select(-1, index)""",
    "y = x[0, :, i:i + 2]": """\
index = torch.arange(i, i + 2).to(x.device)
y = x[0, :, :].index_select(1, index)""",
    "y = x[:2, i:i + 2]": """\
index = torch.arange(i, i + 2).to(x.device)
y = x[:2, :].index_select(1, index)""",
    "y = x[:, i:i + 2, j:j + 3]": """\
index_0 = torch.arange(i, i + 2).to(x.device)
index_1 = torch.arange(j, j + 3).to(x.device)
y = x.index_select(1, index_0).index_select(2, index_1)""",
    "y = sum(x[:, i:i + 2] for i in (0, 3))": "y = sum(x.index_select(1, torch.arange(i, i + 2)"
    ".to(x.device)) for i in (0, 3))",
    "y = sum(x[:, i:i + 2] for k in (0, 3))": """\
index = torch.arange(i, i + 2).to(x.device)
y = sum(x.index_select(1, index) for k in (0, 3))""",
    "y = x[:, i]": """\
index = torch.tensor([i]).to(x.device)
y = x.index_select(1, index).squeeze(1)""",
    "y = f(\n    x[i:i + 2],\n    1)": """\
index = torch.arange(i, i + 2).to(x.device)
y = f(
    x.index_select(0, index),
    1)""",
    "return g(z)[i:i + 2]": """\
index = torch.arange(i, i + 2).to("xla")
return g(z).index_select(0, index)""",
    "y = x[i:i + 2] + x[j]": """\
index_0 = torch.arange(i, i + 2).to(x.device)
index_1 = torch.tensor([j]).to(x.device)
y = x.index_select(0, index_0) + x.index_select(0, index_1).squeeze(0)""",
    "y = x[:, i:i + 2] + z[:, i:i + 2]": """\
index_0 = torch.arange(i, i + 2).to(x.device)
index_1 = torch.arange(i, i + 2).to(z.device)
y = x.index_select(1, index_0) + z.index_select(1, index_1)""",
    "y = x[:, i:i + 2] * x[0, i:i + 2, 0][None, :, None]": """\
index = torch.arange(i, i + 2).to(x.device)
y = x.index_select(1, index) * x[0, :, 0].index_select(0, index)[None, :, None]""",
    "index = x[i:i + 2]": """\
index_ = torch.arange(i, i + 2).to(x.device)
index = x.index_select(0, index_)""",
}
WRITTEN = {
    "x[:, i:i + 2] = v": """\
index = torch.arange(i, i + 2).to(x.device)
x[:, index] = v""",
    "x[:, i] = v[0] + 1": """\
index = torch.tensor([i]).to(x.device)
x.index_copy_(1, index, (v[0] + 1).unsqueeze(1))""",
}


@pytest.mark.parametrize(("text", "expected"), READ.items())
def test_read(text: str, expected: str):
    assert typed(text) == expected


@pytest.mark.parametrize(("text", "expected"), WRITTEN.items())
def test_written(text: str, expected: str):
    assert typed(text, is_written=True) == expected
    assert typed(text) == ""  # the instruction reads: another one is meant


@pytest.mark.parametrize(
    "text",
    [
        "y = x[0:2]",
        "y = x[-n:]",  # its length changes
        "y = x[i:j:2]",
        "y = x[i, j]",  # which of them are numbers is not known
        "y = x[rows, i:i + 2]",
        "y = x[i:i + 2] + z[j:j + 2]",
        "y = x[i:i + 2] + layers[k](x[:, j:j + 2])",  # may be a list
        "y = x[:, table[k:k + 1]]",
        "y = x.narrow(0, i, 2) + table[k]",
        "x[i:i + 2].add_(1)",
        "x[i:i + 2] += v",
        "for y in x[i:i + 2]:",
        "if a: y = x[i:i + 2]",
        "y = x[f(i)]",
        "y = x[i:i + 2]; z = 1",
        "y = x[" + "i" * 90 + ":j]",  # too wide
        "y = x[",
        "",
    ],
)
def test_what_is_not_understood(text: str):
    assert typed(text) == ""


@pytest.mark.parametrize(("text", "expected"), (READ | WRITTEN).items())
def test_what_is_typed_computes_what_the_program_did(text: str, expected: str):
    torch = pytest.importorskip("torch")

    def ran(code: str):
        x = torch.arange(4 * 5 * 6.0).reshape(4, 5, 6)
        values = {"torch": torch, "x": x, "z": x, "i": 1, "j": 2}
        values |= {"f": lambda y, _: y, "g": lambda y: y, "v": -torch.ones(4, 2, 6)}
        values["v"] = values["v"] if "i + 2" in text else -torch.ones(1, 4, 6)
        code = code.replace('"xla"', '"cpu"').replace("return ", "y = ")
        exec(code, values)
        return values["x"], values.get("y", values.get("index"))

    (was_x, was), (x, now) = ran(text), ran(expected)
    assert torch.equal(was_x, x)
    if text in READ:
        assert torch.equal(was, now)


@pytest.mark.parametrize(
    ("text", "bounds"),
    [
        ("y = x[:, i:i + 2]", ("i", "i + 2")),
        ("y = x[:n]", ("", "n")),
        ("y = x[self.row, 0]", ("self.row", "")),
        ("y = x[i:j] + z[k]", ("", "")),
        ("y = x.narrow(0, i, 2)", ("", "")),
        ("y = x[", ("", "")),
    ],
)
def test_the_bounds_of_a_slice_as_the_program_says_them(text: str, bounds: tuple[str, str]):
    assert slice_bounds({5: text}, 5) == bounds


def named(above: str, text: str, *widths: int, is_written: bool = False) -> str:
    lines = dict(enumerate(f"def f(x, p, k, rows):\n{above}\n    {text}".split("\n"), 5))
    found = typed_slice(lines, max(lines), frozenset(widths), is_written=is_written)
    return "\n".join(found.code) if found else ""


def test_a_slice_with_a_name():
    above = "    rows = slice(p, p + k)\n    p = p + k"
    assert (
        named(above, "x[rows] = v", 8, is_written=True)
        == """\
index = torch.arange(rows.start, rows.stop).to(x.device)
x[index] = v"""
    )
    assert (
        named(above, "y = x[:, rows] + 1", 1)  # of one row too
        == """\
index = torch.arange(rows.start, rows.stop).to(x.device)
y = x.index_select(1, index) + 1"""
    )
    lines = {5: "rows = slice(p, p + k)", 6: "y = x[rows]"}
    assert slice_bounds(lines, 6) == ("p", "p + k")


@pytest.mark.parametrize(
    "above",
    [
        "    pass",  # a parameter
        "    rows = slice(k)",
        "    rows = slice(None, k)",
        "    rows = slice(-p, -k)",
        "    rows = slice(p, k, 2)",
        "    rows = np.s_[p:k]",
        "    rows = (p, k)",
        "    rows = slice(p, k)\n    rows = other(rows)",
        "    rows = slice(p, k)\n    if k:\n        rows = other(rows)",
        "    if k:\n        rows = slice(p, k)",
        "    def g():\n        rows = slice(p, k)",
        "    rows = slice(p, k)\n    for rows in k: pass",
    ],
)
def test_a_name_that_takes_several_is_no_number(above: str):
    assert named(above, "y = x[rows]", 4) == ""
    assert named(above, "x[rows] = v", 4, is_written=True) == ""


def test_a_name_that_takes_one_is_a_number_unless_the_text_says_otherwise():
    assert "torch.tensor([rows])" in named("    rows = p + k", "y = x[rows]", 1)
    assert "torch.tensor([rows])" in named("    pass", "y = x[rows]", 1)
    for above in ("    rows = slice(k)", "    rows = np.s_[p:k]", "    rows = (p, k)"):
        assert named(above, "y = x[rows]", 1) == ""


def test_a_name_beside_slices_is_a_number_where_the_graph_takes_one():
    assert "torch.tensor([rows])" in named("    pass", "y = x[p:p + 2] + x[rows]", 1, 2)
    assert named("    pass", "y = x[p:p + 1] + x[rows]", 1, 2) == ""
    assert named("    pass", "y = x[p:k] + x[rows]", 1, 2) == ""
    assert named("    pass", "y = x[p:p + 2]", 1) == ""  # another slice is meant
