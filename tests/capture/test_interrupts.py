"""Ctrl-C at any moment of a hook: later steps are recorded, and what is lost is counted."""

import gc
import sys
import threading
import time
import tracemalloc
import weakref
from pathlib import Path

import pytest

from xlagraph.capture.steps import hooks as hooks_module
from xlagraph.capture.steps.counters import COMPILES, GRAPH_SIZE, HITS, TENSORS_MADE
from xlagraph.capture.steps.events import Repeat
from xlagraph.capture.steps.hub import Hub

PACKAGE = str(Path(hooks_module.__file__).parent)


class FakeXla:
    """A torch_xla of counters: each step traces two tensors and hits the cache."""

    def __init__(self):
        self.counts = dict.fromkeys((COMPILES, HITS, TENSORS_MADE), 0)
        self._xla_counter_value = self.counts.get
        self._get_xla_sharding_specs = self._xla_get_default_device = None
        self.samples = []

    def _xla_metric_data(self, name):
        return (1, 1.0, self.samples) if name == GRAPH_SIZE and self.samples else None

    def _get_graph_hash(self, *_):
        return b""

    def _xla_step_marker(self, *_):
        self.counts[TENSORS_MADE] += 2
        self.counts[HITS] += 1
        self.samples.append((time.time(), 7.0))

    def _xla_sync_multi(self, *_):
        self._xla_step_marker()


class Recorder:
    """A sink that counts."""

    name, cells, may_want_deep, wants_lines = "recorder", None, False, False

    def __init__(self):
        self.outcomes, self.notes = [], []

    def wants_deep(self):
        return False

    def on_sync(self, event):
        self.outcomes.append((event.entry, event.outcome))

    def repeater(self, event):
        def tell(starts, _ends):
            self.outcomes += [(event.entry, event.outcome)] * len(starts)

        return Repeat(1, tell)

    def on_note(self, what, detail):
        self.notes.append((what, detail))


@pytest.fixture
def program():
    """Makes hooked programs: the hub, its sink, and a step."""

    def make():
        xla, sink = FakeXla(), Recorder()
        hub = Hub(xla, None, 0)
        hub.evidence.look = lambda _waiting, _deep: None
        hub.install()
        hub.join(sink)
        hub.flight.local.rank = 0

        def step():
            xla._xla_step_marker()

        return hub, sink, step

    return make


def run_with_interrupt(step, number):
    """Whether the step was interrupted, at the given moment of those at which it may be.

    The interpreter looks for signals as a function begins, and when one that is written in C
    has returned.
    """
    moments = 0

    def profile(frame, event, _function):
        nonlocal moments
        if event in ("call", "c_return") and frame.f_code.co_filename.startswith(PACKAGE):
            moments += 1
            if moments == number:
                raise KeyboardInterrupt

    sys.setprofile(profile)
    try:
        step()
    except KeyboardInterrupt:
        pass
    finally:
        sys.setprofile(None)
    return moments >= number


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # by Python
@pytest.mark.parametrize("before", [0, 3, 20], ids=["first", "early", "stable"])
def test_an_interrupt_costs_one_call_at_most(program, before):
    number = 0
    was_interrupted = True
    while was_interrupted:
        number += 1
        hub, sink, step = program()
        for _ in range(before):
            step()
        was_interrupted = run_with_interrupt(step, number)
        for _ in range(20):
            step()
        hub.settle()
        ran = hub.counters.now().hits
        told = [one for one in sink.outcomes if one[1] != "empty"]
        lost = sum(int(detail.split()[0]) for what, detail in sink.notes if what == "interrupted")
        assert {outcome for _, outcome in told} == {"hit"}, number
        assert ran - lost <= len(told) <= ran, (number, told)
        assert lost <= 1
        assert [entry for entry, _ in told[-19:]] == ["sync"] * 19, number
        assert not hub.flight.others()
    assert number > 9, "nothing was interrupted"


def test_a_thread_that_was_interrupted_is_not_taken_for_one_that_runs(program):
    hub, sink, step = program()
    for _ in range(3):
        step()

    def stopped():
        hub.flight.local.rank = 0
        hub.flight.enter()  # and nothing ends it

    thread = threading.Thread(target=stopped)
    thread.start()
    thread.join()
    assert not hub.flight.others()
    for _ in range(3):
        step()
    hub.settle()
    assert [outcome for _, outcome in sink.outcomes] == ["hit"] * 6
    assert [what for what, _ in sink.notes] == ["interrupted"]


def test_code_that_is_made_anew_at_each_step_leaves_nothing(program):
    _, sink, step = program()
    codes = []

    def run(number):
        for _ in range(number):
            code = compile("step()", "<made>", "exec")
            exec(code, {"step": step})
            codes.append(weakref.ref(code))

    run(100)
    del sink.outcomes[:], codes[:]
    gc.collect()
    tracemalloc.start()
    try:
        run(300)
        gc.collect()
        taken = tracemalloc.take_snapshot().filter_traces(
            [tracemalloc.Filter(True, PACKAGE + "/*")]
        )
    finally:
        tracemalloc.stop()
    assert len(sink.outcomes) == 300
    assert sum(one() is not None for one in codes) <= 1
    assert sum(one.size for one in taken.statistics("filename")) < 20_000
