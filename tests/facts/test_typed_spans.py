"""A number that is given to a span whose ends change, written as a mask."""

from __future__ import annotations

import pytest

from xlagraph.facts.program.typed_spans import typed_span


def typed(text: str) -> str:
    found = typed_span(dict(enumerate(text.split("\n"), 5)), 5)
    return "\n".join(found.code) if found else "none"


SPANS = {
    "x[:, low:low + n] = 0.0": """\
place = torch.arange(x.shape[1], device=x.device).reshape(-1, *[1] * (x.dim() - 2))
start = torch.tensor([low]).to(x.device)
end = torch.tensor([low + n]).to(x.device)
x.masked_fill_((place >= start) & (place < end), 0.0)""",
    "self.x[..., start:] = -1  # a name that is taken": """\
place = torch.arange(self.x.shape[-1], device=self.x.device)
start_ = torch.tensor([start]).to(self.x.device)
self.x.masked_fill_((place >= start_), -1)""",
    "x[..., :n, :] = True": """\
place = torch.arange(x.shape[-2], device=x.device).reshape(-1, 1)
end = torch.tensor([n]).to(x.device)
x.masked_fill_((place < end), True)""",
    "x[..., a:b, c:d] = 0.0": """\
place_0 = torch.arange(x.shape[-2], device=x.device).reshape(-1, 1)
start_0 = torch.tensor([a]).to(x.device)
end_0 = torch.tensor([b]).to(x.device)
place_1 = torch.arange(x.shape[-1], device=x.device)
start_1 = torch.tensor([c]).to(x.device)
end_1 = torch.tensor([d]).to(x.device)
x.masked_fill_(
    (place_0 >= start_0) & (place_0 < end_0) & (place_1 >= start_1) & (place_1 < end_1), 0.0
)""",
}


@pytest.mark.parametrize(("text", "expected"), SPANS.items())
def test_forms(text: str, expected: str):
    assert typed(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "x[0, a:b] = 0.0",  # takes a dimension away
        "x[1:3, a:b] = 0.0",
        "x[rows, a:b] = 0.0",
        "x[:, a:b:2] = 0.0",
        "x[:, -n:] = 0.0",
        "x(y)[a:b] = 0.0",
        "x[a:b] = z = 0.0",
    ],
)
def test_what_is_a_span_but_not_understood(text: str):
    assert typed(text) == ""


@pytest.mark.parametrize(
    "text", ["x[:, 2:5] = 0.0", "x[:, a:b] = v", "x[:, k] = 0.0", "y = x[:, a:b]", "x[:] = 0"]
)
def test_what_is_no_number_given_to_a_span(text: str):
    assert typed(text) == "none"


@pytest.mark.parametrize(
    ("text", "shape"),
    [(text, shape) for text in list(SPANS)[2:] for shape in ((7, 7), (2, 7, 7))]
    + [("x[:, low:low + n] = 0.0", shape) for shape in ((7, 7), (7, 7, 7), (2, 7, 7, 7))],
)
def test_what_is_typed_fills_what_the_program_did(text: str, shape: tuple[int, ...]):
    torch = pytest.importorskip("torch")
    for a, b in ((0, 3), (2, 9), (4, 4), (6, 7)):
        values = {"torch": torch, "a": a, "b": b, "c": 1, "d": b, "n": b - a, "low": a}
        was, now = ({**values, "x": torch.rand(shape)} for _ in range(2))
        now["x"].copy_(was["x"])
        exec(text, was)
        exec(typed(text), now)
        assert torch.equal(was["x"], now["x"])
