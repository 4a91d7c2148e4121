"""Exponents and inputs of another dtype, written with the program's own statements."""

from __future__ import annotations

import pytest

from xlagraph.facts.program.typed_numbers import typed_cast, typed_exponent


def exponent(text: str) -> str:
    found = typed_exponent(dict(enumerate(text.split("\n"), 5)), 5)
    return "\n".join(found.code) if found else ""


def cast(text: str) -> str:
    found = typed_cast(dict(enumerate(text.split("\n"), 5)), 5, "torch.float32")
    return "\n".join(found.code) if found else ""


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("y = (1 - p) ** gamma * z", 'y = (1 - p) ** torch.tensor([gamma]).to("xla")[0] * z'),
        (
            "y = p.pow(2 + step % 3)  # focal",
            'y = p.pow(torch.tensor([2 + step % 3]).to("xla")[0])',
        ),
        ("y = torch.pow(p, s.g)", 'y = torch.pow(p, torch.tensor([s.g]).to("xla")[0])'),
        ("y = f(\n    p ** g)", 'y = f(\n    p ** torch.tensor([g]).to("xla")[0])'),
        ("y = p ** 2", ""),
        ("y = p ** a + q ** b", ""),  # which of them changes is not known
        ("y = pow(p, g)", ""),
        ("y = p.exp()", ""),
        ("y = p ** " + "g" * 90, ""),
        ("y = p **", ""),
    ],
)
def test_an_exponent_is_sent(text: str, code: str):
    assert exponent(text) == code


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("x = batch['x'].to(device)", "x = batch['x'].to(torch.float32).to(device)"),
        (
            'loss = net(torch.from_numpy(rows).to("xla"))',
            'loss = net(torch.from_numpy(rows).to(torch.float32).to("xla"))',
        ),
        ("x, y = x.to(device), y.to(device)", ""),  # which of them is not known
        ("x, y = (t.to(device) for t in batch)", ""),  # labels would be converted as well
        ("b = {k: v.to(device) for k, v in batch.items()}", ""),
        ("x = x.to(torch.float64)", ""),
        ("x = x.to(device, torch.float64)", ""),
        ("x = load(path)", ""),
        ("x = x.to(", ""),
    ],
)
def test_what_is_sent_is_converted_before(text: str, code: str):
    assert cast(text) == code


def test_what_is_typed_computes_what_the_program_did():
    torch = pytest.importorskip("torch")
    p = torch.rand(5)
    for text in ("y = (1 - p) ** gamma", "y = p.pow(1 + gamma % 3)", "y = torch.pow(p, gamma)"):
        for gamma in (2, 3.5):
            was, now = ({"torch": torch, "p": p, "gamma": gamma} for _ in range(2))
            exec(text, was)
            exec(exponent(text).replace('"xla"', '"cpu"'), now)
            assert torch.allclose(was["y"], now["y"])
