"""The parts of capture that need no torch."""

import os
import sys
import threading
import time
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xlagraph.capture.host.arguments import masked
from xlagraph.capture.host.folder import choose_folder
from xlagraph.capture.host.options import Numbers, OptionError, Options, options_from, parse_bytes
from xlagraph.capture.host.patches import Guard, Patches
from xlagraph.capture.places.sites import SiteReader
from xlagraph.capture.steps.counters import COMPILES, HITS, TENSORS_MADE, Counters
from xlagraph.capture.steps.events import CompiledGraph, Repeat
from xlagraph.capture.steps.hub import Hub
from xlagraph.capture.steps.steady import SteadySteps
from xlagraph.capture.tensors.live import align, parse_frames
from xlagraph.capture.tensors.names import clean_name
from xlagraph.capture.tensors.tensor_shapes import entry_shapes
from xlagraph.run.journal import FIRST, STEPS, new_cells

SHAPES = st.lists(st.sampled_from(["[2]", "[3]", "[]"]), max_size=8)


@given(SHAPES, st.data())
def test_align_is_right_wherever_it_is_sure(outputs, data):
    places = sorted(data.draw(st.sets(st.sampled_from(range(len(outputs))))) if outputs else [])
    mine = [outputs[place] for place in places]
    for found, true in zip(align(mine, outputs), places, strict=True):
        assert found in (-1, true)
    assert align(outputs, outputs) == list(range(len(outputs)))


def test_align_of_what_does_not_fit():
    assert align(["[2]", "[4]"], ["[2]", "[3]"]) == [-1, -1]


def test_entry_shapes():
    header = (
        b"HloModule SyncTensorsGraph.10, buffer_donor={ (1, {}) }, "
        b"entry_computation_layout={(f32[8,8]{1,0}, /*index=1*/s64[])->(f32[8]{0}, pred[])}, "
        b"num_partitions=1\n\nENTRY ..."
    )
    assert entry_shapes(header) == (["f32[8,8]", "s64[]"], ["f32[8]", "pred[]"])
    assert entry_shapes(b"HloModule m\n") == ([], [])


def test_frames_of_ir_debug():
    (frame,) = parse_frames("IR: [] aten::add, location=forward@model.py:5, xla_shape=f32[]")
    assert (frame.file, frame.line, frame.function) == ("model.py", 5, "forward")


@pytest.mark.parametrize(
    ("name", "clean"),
    [
        ("_fsdp_wrapped_module._fpw_module.blocks.0.weight", "blocks.0.weight"),
        ("_fsdp_shard_FSDP_SHARD_SEPARATOR__fpw_module_FSDP_SHARD_SEPARATOR_bias", "bias"),
        ("_orig_mod.head", "head"),
        ("", ""),
    ],
)
def test_clean_name(name, clean):
    assert clean_name(name) == clean


def test_numbers_and_bytes():
    some = Numbers.parse("0-2, 8,100-", "STEPS")
    assert [n for n in range(120) if n in some] == [0, 1, 2, 8, *range(100, 120)]
    assert 5 in Numbers()
    assert [parse_bytes(text, "B") for text in ("7", "2K", "1 MiB", "3g")] == [
        7, 2048, 1 << 20, 3 << 30,
    ]  # fmt: skip
    with pytest.raises(OptionError, match="STEPS: want numbers"):
        Numbers.parse("3-x", "STEPS")
    with pytest.raises(OptionError, match="B: want bytes"):
        parse_bytes("lots", "B")


def test_options_from_environment():
    assert options_from({}) == Options()
    options = options_from({"XLAGRAPH": "2", "XLAGRAPH_STEPS": "3", "XLAGRAPH_HOLDERS": "yes"})
    assert (options.level.name, 3 in options.steps, 4 in options.steps) == ("2", True, False)
    assert options.holders
    for bad in ({"XLAGRAPH": "3"}, {"XLAGRAPH": "deep"}, {"XLAGRAPH_ARM_STEPS": "-1"}):
        with pytest.raises(OptionError):
            options_from(bad)


@pytest.mark.parametrize(
    ("given", "recorded"),
    [
        ("train.py --lr 0.1 data", "train.py --lr 0.1 data"),
        ("a.py --api-key XYZ --steps 3", "a.py --api-key *** --steps 3"),
        ("a.py --hf_token=XYZ rest", "a.py --hf_token=*** rest"),
        (
            "a.py -password -XYZ --client-secret --verbose",
            "a.py -password *** --client-secret --verbose",
        ),
        ("a.py wandb.API_KEY=XYZ", "a.py wandb.API_KEY=***"),
        ("a.py s3://me:XYZ@host/run", "a.py s3://***@host/run"),
        ("key.py --keys", "key.py --keys"),
    ],
)
def test_secrets_among_the_arguments(given, recorded):
    assert " ".join(masked(given.split())) == recorded


def test_a_link_named_job_keeps_its_target(tmp_path, monkeypatch):
    monkeypatch.setenv("XLAGRAPH_JOB", "mine")
    (tmp_path / "target").write_text("precious")
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "job").symlink_to(tmp_path / "target")
    assert choose_folder(Options(path=str(folder))) == folder
    assert (tmp_path / "target").read_text() == "precious"
    assert (folder / "job").read_text() == "mine\n"
    assert not (folder / "job").is_symlink()


def test_pipes_in_a_run_folder_block_nothing(tmp_path, monkeypatch):
    monkeypatch.setenv("XLAGRAPH_JOB", "mine")
    folder = tmp_path / "run"
    folder.mkdir()
    os.mkfifo(folder / "records-0-h-1.jsonl")
    os.mkfifo(folder / "job")
    assert choose_folder(Options(path=str(folder))) == tmp_path / "run-2"


def test_folders_of_jobs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for job, expected in (("a", "xlagraph-run"), ("b", "xlagraph-run-2"), ("a", "xlagraph-run")):
        monkeypatch.setenv("XLAGRAPH_JOB", job)
        assert choose_folder(Options()).name == expected


def test_patches_are_reversible_and_leave_later_ones():
    class Base:
        def a(self):
            return "a"

    class Derived(Base):
        pass

    patches = Patches()
    patches.replace(Derived, "a", lambda original: lambda self: original(self) + "+")
    patches.replace(Base, "a", lambda original: lambda self: original(self) + "-")
    assert not patches.replace(Base, "missing", lambda original: original)
    assert Derived().a() == "a+"
    later = Base.a = lambda _: "later"
    patches.undo()
    assert "a" not in Derived.__dict__
    assert Base.a is later


def test_guard_tells_once(capsys):
    told = []
    guard = Guard(lambda what, detail: told.append((what, detail)))

    def bad():
        raise ValueError("planted")

    assert [guard.run("hook", bad) for _ in range(3)] == [None] * 3
    assert guard.run("other", lambda: 5) == 5
    assert guard.failures["hook"] == 1
    assert len(told) == 1
    assert capsys.readouterr().err.count("planted") == 1


class SlowSink:
    """Is told of stable steps, and lets other threads run meanwhile, as writing a file does."""

    name = "slow"

    def __init__(self):
        self.cells = new_cells()
        self.starts = []
        self.looks = []
        self.is_interrupted = False

    def repeater(self, _event):
        return Repeat(1, self.tell)

    def tell(self, starts, _ends):
        self.starts += starts
        time.sleep(1e-4)
        if self.is_interrupted:
            self.is_interrupted = False
            raise KeyboardInterrupt


@pytest.fixture
def steady():
    """Stable steps without torch_xla: the steps, their sink, and the hooked step marker."""
    counts = dict.fromkeys((COMPILES, HITS, TENSORS_MADE), 0)
    counters = Counters(SimpleNamespace(_xla_counter_value=counts.get, _xla_metric_data=None))
    steps = SteadySteps(
        counters,
        SiteReader(),
        SimpleNamespace(alive=False),
        Guard(lambda *_: None),
        lambda: sink.looks.append(len(sink.starts)),
    )
    sink = SlowSink()

    def sync():
        time.sleep(0)  # torch_xla lets other threads run too
        counts[HITS] += 1

    def told(start, _end, frame):
        counters.seen.hits = counts[HITS]
        steps.drain()  # as the hub does before it tells of anything else
        sink.starts.append(start)
        steps.learn((0, frame), SimpleNamespace(buckets=()), [sink])

    def long_way():
        start = time.time_ns()
        sync()
        told(start, start, sys._getframe(2))

    marker = steps.short_way(sync, long_way, told)

    def run(number):
        for _ in range(number):
            marker()

    return steps, sink, run


def test_each_step_is_told_once_while_another_thread_tells(steady):
    steps, sink, run = steady
    stop = threading.Event()

    def tell():
        while not stop.is_set():
            steps.drain()

    thread = threading.Thread(target=tell)
    thread.start()
    run(5000)
    stop.set()
    thread.join()
    steps.drain()
    assert len(sink.starts) == 5000
    assert sink.starts == sorted(sink.starts)
    assert not any(sink.cells[FIRST:])
    assert sink.looks, "the disk is looked at now and then"


@pytest.mark.parametrize("waiting", [3, 100, STEPS - 1])
def test_after_an_interrupt_the_other_steps_are_told(steady, waiting):
    steps, sink, run = steady
    run(1 + waiting)
    sink.is_interrupted = True
    with pytest.raises(KeyboardInterrupt):
        steps.drain()
    run(10)
    steps.drain()
    assert len(sink.starts) == len(set(sink.starts)) == 1 + waiting + 10


class Calls:
    """The hub beside a torch_xla of counters only, with calls from several threads at once."""

    def __init__(self):
        self.counts = dict.fromkeys((COMPILES, HITS, TENSORS_MADE), 0)
        self.events, self.notes = [], []
        xlac = SimpleNamespace(
            _xla_counter_value=self.counts.get,
            _xla_metric_data=lambda _: None,
            _get_graph_hash=None,
            _get_xla_sharding_specs=None,
            _xla_get_default_device=None,
        )
        self.hub = Hub(xlac, None, 0)
        self.hub.arming.is_close = False
        self.hub.sinks.append(self)
        self.name, self.cells, self.may_want_deep = "calls", None, False

    def wants_deep(self):
        return False

    def on_sync(self, event):
        self.events.append((event.entry, event.outcome))

    def on_note(self, what, detail):
        assert what == "no graph"
        self.notes.append(detail)

    def begin(self, kind, entry):
        """A hooked call in a thread of its own; the result ends it."""
        began, may_end = threading.Event(), threading.Event()

        def function():
            began.set()
            may_end.wait()

        hooked = self.hub.hooks._wrapper(kind, entry)(function)

        def call():
            self.hub.flight.local.rank = 0
            hooked()

        thread = threading.Thread(target=call, daemon=True)
        thread.start()
        began.wait()
        return lambda: (may_end.set(), thread.join())


def test_one_call_after_another():
    calls = Calls()
    for outcome in (HITS, COMPILES):
        end = calls.begin("step", "sync")
        calls.counts[outcome] += 1
        end()
    assert calls.events == [("sync", "hit"), ("sync", "compile")]


def test_what_ran_while_no_call_was_in_flight_is_unseen():
    calls = Calls()
    for _ in range(2):
        calls.counts[HITS] += 2
        calls.begin("step", "sync")()
    assert calls.events == [("unseen", "hit"), ("sync", "empty")] * 2


def test_overlapping_calls_are_told_once_and_not_guessed():
    calls = Calls()
    first, second = calls.begin("step", "sync"), calls.begin("value", "item")
    calls.counts[HITS] += 1
    calls.counts[COMPILES] += 1
    second()
    first()
    calls.begin("step", "sync")()
    assert calls.events == [("item", "unknown"), ("sync", "unknown"), ("sync", "empty")]


def test_a_graph_that_another_call_took_may_have_been_this_ones():
    calls = Calls()
    first = calls.begin("step", "sync")
    calls.counts[COMPILES] += 1
    second = calls.begin("step", "sync")
    calls.counts[COMPILES] += 1
    first()
    second()
    calls.begin("step", "sync")()
    assert calls.events == [("sync", "unknown"), ("sync", "unknown"), ("sync", "empty")]


MODULE = CompiledGraph("d", "m", b"", None, None, (), (), (), (), tensors_agree=True)


class Written:
    """A dump of modules, of which each is read once."""

    gives_modules, is_new, analyses = True, False, None

    def __init__(self):
        self.modules = self
        self.complete = []

    def keep_room(self):
        """There is always room."""

    def end(self):
        """Nothing was set."""

    def take(self):
        modules, self.complete = self.complete, []
        return modules

    def why_none(self):
        return "nothing was written"


def test_a_compile_that_another_call_has_begun_is_left_to_it():
    """torch_xla counts a compile before XLA has written the module."""
    calls = Calls()
    dump = calls.hub.evidence.dump = Written()
    calls.hub.evidence.take = lambda *_: dump.take()
    first, second = calls.begin("step", "sync"), calls.begin("step", "sync")
    calls.counts[COMPILES] += 1
    first()
    dump.complete.append(MODULE)
    second()
    assert calls.events == [("sync", "empty"), ("sync", "compile")]
    assert not calls.notes


def test_the_last_call_tells_of_the_modules_that_are_missing():
    calls = Calls()
    calls.hub.evidence.dump = Written()
    first, second = calls.begin("step", "sync"), calls.begin("step", "sync")
    calls.counts[COMPILES] += 2
    first()
    assert not calls.notes
    second()
    assert calls.events == [("sync", "unknown"), ("sync", "unknown")]
    assert calls.notes == ["2 compiled without a stored graph: nothing was written"]


def test_the_only_graph_that_ran_is_the_calls():
    calls = Calls()
    step, read = calls.begin("step", "sync"), calls.begin("value", "item")
    calls.counts[HITS] += 1
    step()
    read()
    assert calls.events == [("sync", "hit")]


def test_a_graph_that_runs_by_its_hash_takes_no_count():
    calls = Calls()
    read, cached = calls.begin("value", "item"), calls.begin("dynamo", "run_cached")
    calls.counts[COMPILES] += 1
    cached()
    read()
    assert calls.events == [("run_cached", "hit"), ("item", "compile")]
