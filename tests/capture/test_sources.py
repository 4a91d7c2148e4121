"""The lines of the program that a run refers to, stored with it."""

import gc
import os
import shutil
import time
from types import ModuleType, SimpleNamespace

import pytest

from xlagraph.capture.places import sources
from xlagraph.capture.places.sources import SourceReader, places_in
from xlagraph.run.reader import read_run

PROGRAM = """# encoding: latin-1
import os, torch, torch_xla
from net import model

def train(rows):
    y = model(torch.ones(rows, 8, device="xla"))  # \u00e9
    torch_xla.sync()

os.chdir("/")
for step in range(4):
    train(4 + step // 2)
"""
NET = """import torch
def model(x):
    h = torch.nn.functional.layer_norm(x, x.shape[-1:])
    return h.exp()
"""


@pytest.mark.torch_xla
@pytest.mark.parametrize("level", ["watch", "1"])
def test_lines_are_stored_and_read_again(run_program, tmp_path, level):
    (tmp_path / "train.py").write_bytes(PROGRAM.encode("latin-1"))
    (tmp_path / "net.py").write_text(NET)
    run_program(tmp_path / "train.py", XLAGRAPH=level)
    shutil.rmtree(tmp_path / "__pycache__", ignore_errors=True)
    (tmp_path / "train.py").unlink()  # what was stored needs it no more
    run = read_run(tmp_path / "xlagraph-run")
    (process,) = run.processes
    assert not process.notes
    sync = next(sync for sync in process.syncs if sync.outcome == "compile")
    site = sync.call_site[0]
    expected = list(enumerate(PROGRAM.splitlines(), 1))
    assert run.source(site.file, site.line) == tuple(expected[site.line - 3 : site.line + 2])
    assert run.source(site.file, 1) is None or site.line <= 3
    net = run.source(str(tmp_path / "net.py"), 3)
    if level == "watch":
        assert net is None, "it stands in stacks of instructions only"
    else:
        assert net == tuple(enumerate(NET.splitlines(), 1))
    assert not [one for one in process.sources if "/torch/" in one.file]
    places = [(one.file, one.first) for one in process.sources]
    assert len(places) == len(set(places))


def places(file, *lines):
    return [(str(file), line) for line in lines]


@pytest.fixture
def program(tmp_path):
    file = tmp_path / "program.py"
    file.write_text("".join(f"line {n}\n" for n in range(1, 11)))
    os.utime(file, (1, 1))
    return file


def test_each_line_is_given_once_with_those_around_it(program):
    reader = SourceReader()
    found = list(reader.new(places(program, 5, 1, 5, 10)))
    assert [(one.first, one.lines) for one in found] == [
        (1, ("line 1", "line 2", "line 3")),
        (3, ("line 3", "line 4", "line 5", "line 6", "line 7")),
        (8, ("line 8", "line 9", "line 10")),
    ]
    assert list(reader.new(places(program, 1, 5, 10))) == []
    assert list(reader.new(places(program, 0, -5, 400))) == []


@pytest.mark.parametrize(
    "data",
    [b"# coding: nosuch\nx\n", b"\xff\xfe\x00bad utf8\n" * 3, b"", b"x" * (sources._MAX_FILE + 1)],
)
def test_what_cannot_be_read_is_left_out(tmp_path, data):
    file = tmp_path / "odd.py"
    file.write_bytes(data)
    os.utime(file, (1, 1))
    os.mkfifo(tmp_path / "pipe.py")
    odd = [*places(file, 1), *places(tmp_path / "pipe.py", 1), *places(tmp_path, 1)]
    odd += [("<string>", 1), ("", 1), ("no\0name", 1), (str(tmp_path / "missing.py"), 3)]
    assert list(SourceReader().new(odd)) == []


def test_a_file_changed_since_is_unknown(program):
    reader = SourceReader()
    later = time.time() + 60
    os.utime(program, (later, later))
    assert list(reader.new(places(program, 5))) == []


def test_bounds(program, monkeypatch):
    monkeypatch.setattr(sources, "MAX_LINES", 3)
    reader = SourceReader()
    assert len(list(reader.new(places(program, *range(1, 9))))) == 3
    program.write_text("y" * 100_000)
    os.utime(program, (1, 1))
    (found,) = SourceReader().new(places(program, 1))
    assert len(found.lines[0]) == sources._MAX_WIDTH


def test_places_in_texts_and_damaged_protos():
    text = rb'a = f32[] b(), metadata={op_name="x" source_file="/a \"b\"/c.py" source_line=12}'
    assert places_in(text, None) == {('/a "b"/c.py', 12)}
    for damaged in (b"", b"\x0a", b"\x8a\x01\x04\x0a\x01f\x1a", b"\x8a\x01\x04\x1a\x02\x08\x05"):
        assert places_in(text, damaged) == set()


def test_modules_that_are_imported_by_what_a_collection_calls_cut_nothing(monkeypatch):
    """A collection runs finalizers, which may import, in the middle of a list of what there is."""
    modules = {f"known_{k}": ModuleType(f"known_{k}") for k in range(2000)}
    modules["own"] = ModuleType("own")
    modules["own"].__file__ = "own.py"
    monkeypatch.setattr(sources, "sys", SimpleNamespace(modules=modules))

    def import_one(_phase, _details):
        modules[f"more_{len(modules)}"] = ModuleType("more")

    thresholds = gc.get_threshold()
    gc.callbacks.append(import_one)
    gc.set_threshold(1, 1, 1)
    try:
        found = sources._imported()
    finally:
        gc.set_threshold(*thresholds)
        gc.callbacks.remove(import_one)
    assert found == {"own.py"}
