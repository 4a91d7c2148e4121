"""The program's statements that set an option of a layer and run no operation."""

from __future__ import annotations

import json
import os
import sys
import warnings
from types import ModuleType

import pytest

from xlagraph.capture.places import settings, sources
from xlagraph.capture.places.settings import settings_in
from xlagraph.capture.places.sources import SourceReader
from xlagraph.run.codec import encode
from xlagraph.run.reader import read_run
from xlagraph.run.records import SettingRecord
from xlagraph.runs.explain import explain_run

PROGRAM = """import sys, torch, torch_xla
from torch import nn
import schedule
sys.path.append("site-packages")
import library
norm = nn.BatchNorm1d(4).to("xla")
x = torch.randn(8, 4).to("xla")
torch_xla.sync()
for step in range(6):
    schedule.decay(norm, 0.9 ** step)
    y = norm(x).sum()
    torch_xla.sync()
"""
SCHEDULE = """def decay(layer, number):
    if isinstance(number, float):
        layer.momentum = number
"""


def found(*lines: str) -> list[tuple[int, str, str, str]]:
    return [tuple(one) for one in settings_in(lines)]


@pytest.mark.parametrize(
    ("line", "option", "value"),
    [
        ("m.momentum = rule(epoch)", "momentum", ""),
        ("model.bn[0].momentum = 0.5", "momentum", "0.5"),
        ("m.momentum *= 0.9", "momentum", ""),
        ("m.eps, m.x = m.momentum = pair", "momentum", ""),
        ("for m in model.modules(): m.momentum = 0.1 if m.a else x", "momentum", ""),
        ("model.apply(lambda m: setattr(m, 'momentum', x))", "momentum", ""),
        ("self.net.training = False", "training", "False"),
        ("model.train()", "training", "True"),
        ("model.train(mode=epoch < 3)", "training", ""),
        ("self.models['a'].eval()", "training", "False"),
        ("self.eval()", "training", "False"),
        ("p.requires_grad = i < depth", "requires_grad", ""),
        ("p.requires_grad_()", "requires_grad", "True"),
        ("model.requires_grad_(False)", "requires_grad", "False"),
        ("for words in data: x = pad_sequence(words, batch_first=True)", "padding", ""),
        ("collator = transformers.DataCollatorWithPadding(tok)", "padding", ""),
        ("for words in data: batch = tok(texts, padding=True, return_tensors='pt')", "padding", ""),
        ("for words in data: batch = tok.pad(rows, padding='longest')", "padding", ""),
        ("config = BartConfig(d_model=16, encoder_layerdrop=0.2)", "layerdrop", "0.2"),
        ("config = Wav2Vec2Config(layerdrop=args.drop)", "layerdrop", ""),
    ],
)
def test_what_sets_an_option(line, option, value):
    told = [one for one in found(line) if one[2] != "configuration"]
    assert told == [(1, "<module>", option, value)]


@pytest.mark.parametrize(
    ("line", "names"),
    [
        ("config = Wav2Vec2Config(hidden_size=8)", ["Wav2Vec2Config"]),
        ("config = transformers.HubertConfig(layerdrop=0.0)", ["HubertConfig"]),
        ("config = HubertConfig(**options)", []),
        ("config = parse_Config(a=1)", []),
    ],
)
def test_what_configures_a_model(line, names):
    told = [one[3] for one in found(line) if one[2] == "configuration"]
    assert told == names


@pytest.mark.parametrize(
    "line",
    [
        "self.momentum = momentum  # its own: what object it is, is not known",
        "group['momentum'] = 0.5",
        "momentum = m.momentum",
        "m.momentum: float",
        "setattr(m, name, 'momentum')",
        "'m.momentum = 1'",
        "trainer.train(rounds=3)",
        "tokenizer.train(files, 8)",
        "Trainer(model).train()",
        "net = Net().to(device).train()",
        "real = real.detach().requires_grad_(True)",
        "frame.eval('a + b')",
    ],
)
def test_what_only_looks_like_it(line):
    assert found(line) == []


@pytest.mark.parametrize(
    ("lines", "axes"),
    [
        (["def collate(batch):", " return torch.cat([one.x for one in batch])"], ["0"]),
        (["load(collate_fn=merge)", "def merge(rows):", " return torch.cat(rows, dim=1)"], ["1"]),
        (["load(collate_fn=B.f)", "class B:", " def f(s): return np.concatenate(s, -1)"], ["-1"]),
        (["load(collate_fn=partial(merge, n=1))", "def merge(rows):", " return cat(rows)"], ["0"]),
        (["def collate(a, b):", " return torch.cat([a, b])"], []),  # as many in every batch
        (["def collate(batch):", " return torch.stack(batch)"], []),  # all of one size
        (["def collate(batch, axis):", " return torch.cat(batch, axis)"], []),
        (["def merge(rows):", " return torch.cat(rows)", "collate = None"], []),
    ],
)
def test_a_collate_function_that_joins_items(lines, axes):
    function = "collate" if lines[0].startswith("def") else "merge" if "merge" in lines[0] else "f"
    assert found(*lines) == [(len(lines), function, "joined", axis) for axis in axes]


@pytest.mark.parametrize(
    ("use", "is_sent"),
    [
        ("x, y = (t.to(device) for t in make())", True),
        ("x = make().to(device)", True),
        ("x = make()\n y = x.to('xla')", True),
        ("for x in make(): step(x.to(device))", True),
        ("for x, y in make():\n  x = x.to(device)", True),
        ("x = make().to('cpu')", False),
        ("x = make()\n y = z.to(device)", False),
    ],
)
def test_a_function_of_which_the_result_is_sent_puts_batches_together(use, is_sent):
    made = ["def make():", " return np.unique(rows)", "while True:"]
    assert found(*made, *f" {use}".split("\n")) == [(2, "make", "distinct", "")] * is_sent


@pytest.mark.parametrize(
    ("lines", "hook"),
    [
        (["m.register_forward_hook(record)"], "record"),
        (["handles.append(p.register_post_accumulate_grad_hook(self._clip))"], "_clip"),
        (["h = m.register_forward_pre_hook(functools.partial(record, name))"], "record"),
        (["p.register_hook(lambda grad: grad * 2)"], "<lambda>"),
        (
            ["def save(name):", " def f(m, i, o): pass", " return f", "m.register_hook(save(n))"],
            "f",
        ),
    ],
)
def test_a_call_that_attaches_a_hook(lines, hook):
    assert found(*lines) == [(len(lines), "<module>", "hook", hook)]


@pytest.mark.parametrize(
    "line", ["m.register_buffer('x', y)", "m.register_hook(made_elsewhere(n))"]
)
def test_what_attaches_no_hook_that_is_known(line):
    assert found(line) == []


def test_functions_are_named_as_frames_name_them():
    lines = [
        "class A:",
        " def f(self):",
        "  def g(m):",
        "   m.momentum = 1",
        "  a.eval(); b.train()",
    ]
    assert found(*lines) == [
        (4, "g", "momentum", "1"),
        (5, "f", "training", "False"),
        (5, "f", "training", "True"),
    ]


@pytest.mark.parametrize(
    "text",
    [
        "m.momentum = 1\nprint 'python 2'",
        "m.momentum = 1\nmatch = {",
        "m.momentum = 1\0",
        "m.momentum = 1\n" + "(" * 5000,
        "m.momentum = " + "-" * 100_000 + "1",
        "m.momentum = 1" + "\n" * settings._MAX_TEXT,
    ],
)
def test_what_cannot_be_read_has_none(text):
    assert settings_in(text.split("\n")) == []


def test_the_program_is_not_warned():
    lines = [
        r"a = '\d \' \N{EM DASH}'",
        r"b = f'\N{EM DASH} {a}', r'\''",
        "c = 1 + \\",
        " 2",
        "m.eval()",
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert found(*lines) == [(5, "<module>", "training", "False")]


def test_files_of_modules_are_read_once_and_those_of_libraries_not_at_all(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "modules", {})
    for name in ("own", "site-packages/library", "torch/layer", "second"):
        file = tmp_path / f"{name}.py"
        file.parent.mkdir(exist_ok=True)
        file.write_text("def f(m):\n    m.momentum = 0.5\n")
        os.utime(file, (1, 1))
        module = sys.modules[name] = ModuleType(name)
        module.__file__ = str(file)
    called = str(tmp_path / "second.py")
    reader = SourceReader()
    records = list(reader.settings([(called, 1), ("<string>", 1)]))
    assert records == [
        SettingRecord(str(tmp_path / name), 2, "f", "momentum", "0.5")
        for name in ("second.py", "own.py")
    ]
    assert list(reader.settings([(called, 2)])) == []
    assert json.loads(encode(records[0]))["record"] == "setting"


def test_bounds(tmp_path, monkeypatch):
    file = tmp_path / "own.py"
    file.write_text("m.momentum = a\n" * 500)
    os.utime(file, (1, 1))
    monkeypatch.setattr(sys, "modules", {})
    assert len(list(SourceReader().settings([(str(file), 1)]))) == sources._MAX_SETTINGS
    monkeypatch.setattr(sources, "_MAX_SCANNED", -1)
    assert list(SourceReader().settings([(str(file), 1)])) == []


@pytest.mark.torch_xla
def test_a_schedule_of_momentum_is_placed_where_it_is_set(run_program, tmp_path):
    (tmp_path / "program.py").write_text(PROGRAM)
    (tmp_path / "schedule.py").write_text(SCHEDULE)
    (tmp_path / "site-packages").mkdir()
    (tmp_path / "site-packages" / "library.py").write_text(SCHEDULE)
    run_program(tmp_path / "program.py", XLAGRAPH="1", PYTHONPATH=str(tmp_path))
    run = read_run(tmp_path / "xlagraph-run")
    (process,) = run.processes
    assert not process.notes
    file = str(tmp_path / "schedule.py")
    assert process.settings == (SettingRecord(file, 3, "decay", "momentum"),)
    assert run.source(file, 3) == tuple(enumerate(SCHEDULE.splitlines(), 1))
    verdict = explain_run(run).verdict
    assert str(verdict.where).endswith("schedule.py:3 in decay(), which sets .momentum")
