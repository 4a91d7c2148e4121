"""Which line a cause is told, where a module has whole Python stacks.

The pairs are made by ``fixtures/make_stacks.py``; the lines expected are searched in it.
"""

from __future__ import annotations

import gzip
import json
import re
from dataclasses import replace

import pytest
import zstandard
from click.testing import CliRunner
from hlo_helpers import FIXTURES

from xlagraph.cause.sources import of_the_program, own_line, where
from xlagraph.cli.app import cli
from xlagraph.explain import explain_modules
from xlagraph.graph import SourceFrame
from xlagraph.hlo import load
from xlagraph.message import SourceLine, words
from xlagraph.report.build import pair_report
from xlagraph.report.model import ReportOptions
from xlagraph.run.records import FORMAT_VERSION, Frame, GraphRecord, ProcessRecord, SyncRecord
from xlagraph.run.writer import PROTO_SUFFIX, RunWriter

STACKS = FIXTURES / "stacks"
PROGRAM = "make_stacks.py"
SOURCE = (FIXTURES / PROGRAM).read_text().splitlines()


def line_of(code: str) -> int:
    (number,) = (k for k, text in enumerate(SOURCE, 1) if text.strip() == code)
    return number


def side(pair: str, letter: str):
    return load(str(STACKS / f"{pair}.{letter}.hlo.pb.gz"))


def first_cause(pair: str):
    explained = explain_modules(side(pair, "a"), side(pair, "b"))
    assert explained.proved
    return explained.causes[0]


# --- which line --------------------------------------------------------------------------------


def test_the_program_s_own_line_stands_beside_the_library_s():
    line = first_cause("forward").lines[0]
    assert line[:3] == (PROGRAM, line_of("h = self.norm(h)"), "forward")
    assert line.called
    assert line.called.file == "/venv/site-packages/torch/nn/functional.py"
    assert line.called.function == "layer_norm"
    assert not line.backward_of


def test_an_operation_and_its_derivative_are_one_cause():
    explained = explain_modules(side("forward", "a"), side("forward", "b"))
    kinds = [cause.kind.id for cause in explained.causes]
    assert kinds.count("added-input") == 1
    module, cited = explained.diff.b, explained.causes[0].b
    assert {bool(line.backward_of) for i in cited for line in where(module, [i])} == {False, True}


def test_what_only_the_derivative_computes_is_the_forward_operation_s():
    line = first_cause("backward").lines[0]
    assert line[:3] == (PROGRAM, line_of("h = stem + F.silu(h) * torch.tanh(stem)"), "forward")
    assert line.backward_of == "tanh"
    assert line.called is None


def test_an_optimizer_s_line_is_the_call_of_its_step():
    line = first_cause("optimizer").lines[0]
    assert line[:3] == (PROGRAM, line_of("optimizer.step()"), "train")
    assert line.called
    assert line.called.file == "/venv/site-packages/torch/optim/sgd.py"


def test_a_function_that_computes_more_is_named_with_its_call():
    cause = first_cause("smoothing")
    assert cause.kind.id == "call-option"
    assert str(cause.title).startswith("cross_entropy computes ")
    assert SOURCE[cause.lines[0].line - 1].strip().startswith("loss = F.cross_entropy(")


def test_every_instruction_with_a_stack_has_a_line_of_the_program():
    module = side("forward", "b")
    framed = [i for i in range(len(module)) if module.source(i)]
    assert len(framed) > 100
    library = [i for i in framed if SourceLine(*module.source(i)[:2]).is_library]
    assert len(library) > 100
    assert {where(module, [i])[0].file for i in framed} == {PROGRAM}


def test_without_whole_stacks_the_innermost_line_stays():
    frames = (SourceFrame("/v/site-packages/torch/nn/functional.py", 9, "relu"),)
    assert own_line(frames) == SourceLine(*frames[0])
    module = side("forward", "b")
    tables = replace(module.tables, frames={}, stacks={})
    bare = replace(module, tables=tables)
    assert not any(line.called for i in range(len(bare)) for line in where(bare, [i]))
    assert not bare.origins


def test_frames_of_what_records_are_none_of_the_program():
    """Capture stands around the flush of a bucket, and so in the stack of what that reduces."""
    flush = SourceFrame("/src/xlagraph/capture/tensors/fsdp.py", 128, "flush")
    step = SourceFrame("/me/train.py", 5, "main")
    assert [*of_the_program((flush, step))] == [step]


@pytest.mark.parametrize(
    ("files", "own"),
    [
        (["/v/site-packages/torch/f.py", "/usr/lib/python3.12/contextlib.py", "/me/a.py"], 2),
        (["/me/net.py", "/me/train.py"], 0),
        (["<eval_with_key>.3", "<frozen runpy>", "/me/lib/python/run.py"], 2),
        (["/v/site-packages/a.py", "/v/site-packages/b.py"], 0),
        (["<ipython-input-3>"], 0),
    ],
)
def test_the_innermost_frame_that_is_no_library_s(files, own):
    frames = tuple(SourceFrame(file, k + 1, f"f{k}") for k, file in enumerate(files))
    line = own_line(frames)
    assert line[:3] == (files[own], own + 1, f"f{own}")
    assert (line.called is None) == (own == 0)
    assert line.called is None or line.called[:3] == (files[0], 1, "f0")


@pytest.mark.parametrize(
    ("qualified", "shown"),
    [
        ("main.<locals>.step", "step"),
        ("main.<locals>.step.<locals>.<lambda>", "step"),
        ("Net.forward", "Net.forward"),
        ("<lambda>", "<lambda>"),
        ("<module>", "<module>"),
        ("", ""),
    ],
)
def test_functions_are_called_by_their_innermost_name(qualified, shown):
    assert own_line((SourceFrame("t.py", 1, qualified),)).function == shown


# --- how it is shown ---------------------------------------------------------------------------


def test_a_place_in_words():
    called = SourceLine("/v/site-packages/torch/nn/functional.py", 9, "gelu")
    line = SourceLine("/me/app/net.py", 7, "forward", called, "gelu")
    assert words(line.place) == (
        "backward of gelu at app/net.py:7 in forward(), "
        "through torch/nn/functional.py:9 in gelu() (a library)"
    )
    assert words(SourceLine("net.py", 7).place) == "net.py:7"


def test_diff_prints_the_line():
    paths = [str(STACKS / f"backward.{letter}.hlo.pb.gz") for letter in "ab"]
    number = line_of("h = stem + F.silu(h) * torch.tanh(stem)")
    printed = CliRunner(env={"COLUMNS": "300"}).invoke(cli, ["diff", *paths]).output
    assert f"in the backward of tanh at {PROGRAM}:{number} in forward()" in printed
    assert f"[backward of tanh at {PROGRAM}:{number} in forward()]" in printed
    data = json.loads(CliRunner().invoke(cli, ["diff", "--json", *paths]).output)
    evidence = data["causes"][0]["evidence"][0]
    assert evidence["sources"][0] == f"{PROGRAM}:{number}"
    assert evidence["places"][0] == {
        "file": PROGRAM,
        "line": number,
        "function": "forward",
        "called": "",
        "backward_of": "tanh",
    }


@pytest.fixture
def run_folder(tmp_path):
    """A run whose steps compile the first module of a pair, and at step 6 the second one."""
    folder = tmp_path / "run"
    process = ProcessRecord(FORMAT_VERSION, 0, 1, "h", 1, 1.0, (), 1, ())
    writer = RunWriter(folder, process, 1 << 30)
    digests = {"a": "a" * 32, "b": "b" * 32}
    for letter, digest in digests.items():
        data = gzip.decompress((STACKS / f"forward.{letter}.hlo.pb.gz").read_bytes())
        packed = zstandard.ZstdCompressor().compress(data)
        (folder / "graphs").mkdir(exist_ok=True)
        (folder / "graphs" / (digest + PROTO_SUFFIX)).write_bytes(packed)
    for index in range(10):
        digest = digests["b" if index == 6 else "a"]
        is_new = index in (0, 6)
        writer.write(
            SyncRecord(
                index=index,
                step=index,
                rank=0,
                time=100.0 + index,
                seconds=0.01,
                kind="step",
                entry="sync",
                outcome="compile" if is_new else "hit",
                compile_seconds=0.5 if is_new else 0.0,
                graphs=(digest,),
                graph_is_inferred=False,
                fingerprint=(7,),
                call_site=(Frame(PROGRAM, 61, "train"),),
                live_tensors=(),
                buckets=(),
            )
        )
        if is_new:
            writer.write(GraphRecord(digest, index, "m", 1, (), (), ()))
    writer.close()
    return folder


def test_explain_prints_the_line_of_a_stored_protobuf(run_folder):
    number = line_of("h = self.norm(h)")
    printed = CliRunner(env={"COLUMNS": "300"}).invoke(cli, ["explain", str(run_folder)])
    assert printed.exit_code == 1, printed.output
    where = f"Where {PROGRAM}:{number} in forward()"
    assert printed.output.splitlines()[1].startswith(where)
    assert (
        f"[{PROGRAM}:{number} in forward(), through torch/nn/functional.py:2901" in printed.output
    )


@pytest.mark.parametrize("redact", [False, True])
def test_the_report_says_where_and_redacts_it(redact):
    explained = explain_modules(side("forward", "a"), side("forward", "b"))
    report = pair_report(explained, ("a", "b"), options=ReportOptions(redact=redact))
    place = report.causes[0].evidence[0].sources[0]
    if redact:
        line = r"file\d+\.py:\d+ in function\d+\(\)"
        assert re.fullmatch(rf"{line}, through {line} \(a library\)", place)
    else:
        number = line_of("h = self.norm(h)")
        assert place.startswith(f"{PROGRAM}:{number} in forward(), through torch/nn/functional.py:")
