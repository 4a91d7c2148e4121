"""What a program calls the module that it wraps in FSDP."""

from __future__ import annotations

import pytest

from xlagraph.facts.program.wrapped import attribute_path, wrapped_name


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("    return FSDP(bert.to('xla'), **OPTIONS)", "bert"),
        ("model = FSDP(model)", "model"),
        ("self.net = xla_fsdp.XlaFullyShardedDataParallel(self.net.half().to(d), x=1)", "self.net"),
        ("model = FSDP(\n    net,\n    compute_dtype=torch.bfloat16)", "net"),
        ("trainer.fit(FSDP(net), loader)", "net"),
        ("for block in blocks:\n    more(FSDP(block),\n    1,", ""),  # it ends elsewhere
        ("if wrap: net = FSDP(net)\nelse: (", "net"),
        ("a, b = FSDP(first), FSDP(second)", ""),
        ("a, b = FSDP(net), FSDP(net)", "net"),
        ("model = FSDP(build(), x=1)", ""),
        ("model = FSDP(nets[0])", ""),
        ("model = FSDP(module=net)", ""),
        ("model = wrap(net)", ""),
        ("FSDP(", ""),
        ("\x00", ""),
    ],
)
def test_the_name_of_what_is_wrapped(text: str, name: str) -> None:
    lines = dict(enumerate(text.splitlines(), 7))
    assert wrapped_name(lines, 7) == name
    assert wrapped_name(lines, 70) == ""


@pytest.mark.parametrize("path", ["", "0", "0.inner.2", "0.inner.2.weird-name"])
def test_a_path_leads_to_the_module(path: str) -> None:
    torch = pytest.importorskip("torch")
    leaf = torch.nn.Module()
    leaf.add_module("weird-name", torch.nn.ReLU())
    inner = torch.nn.Module()
    inner.inner = torch.nn.ModuleList([torch.nn.ReLU(), torch.nn.ReLU(), leaf])
    net = torch.nn.Sequential(inner)
    assert eval(attribute_path("net", path)) is net.get_submodule(path)
