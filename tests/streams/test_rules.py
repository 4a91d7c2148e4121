"""What orders accesses and what does not, one rule a test."""

from __future__ import annotations

import pytest
from streams.logs import Writer

from xlagraph.streams.model import Analysis, Kind, State, Verdict

A, B, RED = 101, 102, 103
X, Y, BUCKET = 1000, 2000, 8192
N = 64


def kinds(analysis: Analysis) -> list[tuple[str, str]]:
    return [(str(one.kind), str(one.state)) for one in analysis.findings]


def test_two_streams_without_a_wait_race() -> None:
    program = Writer()
    program.op("write", A, w=[(X, N)], at="a.py:1 f")
    program.op("read", B, r=[(X, N)], at="a.py:2 f")
    (finding,) = program.analysis().findings
    assert finding.kind is Kind.RACE
    assert finding.later is not None
    assert (finding.earlier[0].site, finding.later.site) == ("a.py:1 f", "a.py:2 f")
    assert [(e.source, e.target, e.line) for e in finding.edges] == [(1, 2, 3)]


def test_reads_do_not_conflict() -> None:
    program = Writer()
    program.op("read", A, r=[(X, N)])
    program.op("read", B, r=[(X, N)])
    assert program.analysis().findings == ()


@pytest.mark.parametrize("writes_first", [True, False])
def test_a_write_after_a_read_conflicts_as_well(writes_first: bool) -> None:
    program = Writer()
    program.op("one", A, **({"w": [(X, N)]} if writes_first else {"r": [(X, N)]}))
    program.op("two", B, w=[(X + 32, N)])
    assert kinds(program.analysis()) == [("race", "found")]


def test_an_event_orders_what_came_before_its_record_only() -> None:
    program = Writer()
    program.op("before", A, w=[(X, N)])
    program.add("record", e=5, s=A)
    program.op("after", A, w=[(Y, N)])
    program.add("wait", e=5, s=B)
    program.op("reads what came before", B, r=[(X, N)])
    assert program.analysis().findings == ()
    program.op("reads what came after", B, r=[(Y, N)])
    assert kinds(program.analysis()) == [("race", "found")]


def test_an_event_that_is_recorded_again_stands_for_its_last_record() -> None:
    program = Writer()
    program.op("write", A, w=[(X, N)])
    program.add("record", e=5, s=A)
    program.add("record", e=5, s=RED)
    program.add("wait", e=5, s=B)
    program.op("read", B, r=[(X, N)])
    assert kinds(program.analysis()) == [("race", "found")]


def test_a_wait_for_an_event_that_the_log_does_not_record_is_unknown() -> None:
    program = Writer()
    program.op("write", A, w=[(X, N)])
    program.add("wait", e=77, s=B)
    program.op("read", B, r=[(X, N)])
    analysis = program.analysis()
    assert kinds(analysis) == [("race", "unknown")]
    assert analysis.findings[0].doubt == "event"
    assert (analysis.verdict, analysis.exit_code) == (Verdict.UNKNOWN, 3)
    assert ("waits for events that the log does not record", 1) in analysis.coverage.unseen


def test_an_unknown_wait_before_the_first_access_excuses_nothing() -> None:
    program = Writer()
    program.add("wait", e=77, s=B)
    program.op("write", A, w=[(X, N)])
    program.op("read", B, r=[(X, N)])
    assert kinds(program.analysis()) == [("race", "found")]


def test_a_host_wait_orders_what_the_same_thread_launches_next() -> None:
    program = Writer()
    program.op("write", A, w=[(X, N)])
    program.add("sync_st", s=A)
    program.op("read", B, r=[(X, N)])
    assert program.analysis().findings == ()


@pytest.mark.parametrize("told", [True, False])
def test_a_host_wait_in_another_thread_is_unknown_unless_it_is_handed_on(told: bool) -> None:
    program = Writer()
    program.op("write", A, w=[(X, N)])
    program.add("sync_st", s=A, t=2)
    if told:
        program.add("tell", t=2, m=1)
        program.add("hear", t=1, m=1)
    program.op("read", B, r=[(X, N)])
    analysis = program.analysis()
    assert kinds(analysis) == ([] if told else [("race", "unknown")])
    assert analysis.exit_code == (0 if told else 3)


def test_a_polled_event_orders() -> None:
    program = Writer()
    program.op("write", A, w=[(X, N)])
    program.add("record", e=5, s=A)
    program.add("sync_ev", e=5, via="query")
    program.op("read", B, r=[(X, N)])
    assert program.analysis().findings == ()


def test_a_device_is_waited_for_with_its_own_streams_only() -> None:
    for device, found in ((0, 0), (1, 1)):
        program = Writer()
        program.add("stream", s=A, d=0)
        program.op("write", A, w=[(X, N)])
        program.add("sync_dev", d=device)
        program.op("read", B, r=[(X, N)])
        assert len(program.analysis().findings) == found


def test_default_streams_of_two_devices_are_two_streams() -> None:
    program = Writer()
    program.op("write", 0, w=[(X, N)])
    program.op("read", -1, r=[(X, N)])
    analysis = program.analysis()
    assert kinds(analysis) == [("race", "found")]
    assert [stream.device for stream in analysis.streams] == [0, 1]


def test_a_copy_from_the_host_is_done_when_its_own_wait_is() -> None:
    """``.cuda()`` of pageable memory waits inside the operator, after the copy."""
    for name, found in (("aten._to_copy.default", 0), ("aten.nonzero.default", 1)):
        program = Writer()
        number = program.op(name, A)
        program.add("alloc", p=X, n=N, s=A)
        program.add("sync_st", s=A)
        program.add("out", i=number, s=A, w=[[0, X, N]])
        program.op("read", B, r=[(X, N)])
        assert len(program.analysis().findings) == found


# ---- memory that is handed out again


def reused(*between: tuple[str, dict[str, object]]) -> Writer:
    """Memory of A's, used on B, freed, and handed out to A again."""
    program = Writer()
    program.made("first", X, N, A)
    program.cross(A, B)
    program.op("use", B, r=[(X, N)])
    for kind, fields in between:
        program.add(kind, **fields)
    program.add("free", p=X, at="a.py:9 drop")
    program.made("second", X, N, A)
    return program


def test_memory_handed_out_while_another_stream_reads_it() -> None:
    (finding,) = reused().analysis().findings
    assert (finding.kind, finding.state) == (Kind.REUSE, State.FOUND)
    assert [(e.action, e.source, e.target) for e in finding.edges] == [("record_stream", 2, 1)]
    assert finding.edges[0].site == "a.py:9 drop"


@pytest.mark.parametrize(
    "between",
    [
        ("rs", {"r": [0, X, N], "s": B}),
        ("rs", {"r": [0, X + 8, 8], "s": B}),  # a view: the block is recorded
        ("sync_st", {"s": B}),
    ],
)
def test_memory_that_is_recorded_or_done_may_be_handed_out(
    between: tuple[str, dict[str, object]],
) -> None:
    assert reused(between).analysis().findings == ()


def test_recording_another_stream_does_not_help() -> None:
    assert kinds(reused(("rs", {"r": [0, X, N], "s": RED})).analysis()) == [("reuse", "found")]


def test_a_wait_of_the_owner_after_the_free_helps_if_nothing_was_allocated() -> None:
    program = Writer()
    program.made("first", X, N, A)
    program.cross(A, B)
    program.op("use", B, r=[(X, N)])
    program.add("free", p=X)
    program.cross(B, A)
    program.made("second", X, N, A)
    assert program.analysis().findings == ()


def test_an_allocation_that_could_have_had_the_memory_is_a_warning() -> None:
    program = Writer()
    program.made("first", X, N, A)
    program.cross(A, B)
    program.op("use", B, r=[(X, N)])
    program.add("free", p=X)
    program.made("elsewhere", Y, N, A)
    program.cross(B, A)
    program.made("second", X, N, A)
    analysis = program.analysis()
    assert kinds(analysis) == [("latent-reuse", "warning")]
    assert (analysis.verdict, analysis.exit_code) == (Verdict.NONE_FOUND, 0)
    (finding,) = analysis.findings
    assert finding.proof is not None
    assert finding.proof.proved


def test_a_free_near_the_end_is_not_judged_but_counted() -> None:
    program = Writer()
    program.made("first", X, N, A)
    program.cross(A, B)
    program.op("use", B, r=[(X, N)])
    program.add("free", p=X)
    analysis = program.analysis()
    assert analysis.findings == ()
    assert ("frees near the end of the log, not judged", 1) in analysis.coverage.unseen


def test_new_memory_used_on_another_stream_needs_a_wait_for_its_owner() -> None:
    program = Writer()
    program.made("first", X, N, A)
    program.add("free", p=X)
    program.add("alloc", p=X, n=N, s=A)
    program.op("use", B, w=[(X, N)])
    (finding,) = program.analysis().findings
    assert finding.kind is Kind.REUSE
    assert [(e.action, e.source, e.target) for e in finding.edges] == [("wait", 1, 2)]


def test_memory_that_went_through_the_driver_is_done() -> None:
    """Another stream gets it only after cudaFree, which waits for the device."""
    program = Writer()
    program.made("first", X, N, A)
    program.add("free", p=X)
    program.made("second", X, N, B)
    assert program.analysis().findings == ()


def test_memory_from_before_the_log_may_have_been_recorded() -> None:
    program = Writer()
    program.op("use", B, r=[(X, N)])
    program.add("free", p=X)
    program.made("second", X, N, A)
    analysis = program.analysis()
    assert kinds(analysis) == [("reuse", "unknown")]
    assert analysis.findings[0].doubt == "allocation"


def test_memory_of_a_graph_pool_is_no_warning() -> None:
    program = Writer()
    program.add("alloc", p=X, n=N, s=A, graph=1)
    program.op("graph_replay", 0, w=[(X, N)])
    program.add("free", p=X)
    program.made("other", Y, N, A)
    assert program.analysis().findings == ()


# ---- collectives


def collective(program: Writer, *, waits: bool = True) -> None:
    """An asynchronous collective, launched from A on a stream of its own."""
    number = program.op("c10d.allreduce_.default", A, r=[(X, N)])
    program.cross(A, RED, e=7)
    program.add("record", e=8, s=RED)
    program.add("out", i=number, s=A, w=[[0, X, N]])
    if waits:
        program.add("wait", e=8, s=A)


@pytest.mark.parametrize("waits", [True, False])
def test_an_asynchronous_collective_runs_on_its_own_stream(waits: bool) -> None:
    program = Writer()
    program.op("fill", A, w=[(X, N)])
    collective(program, waits=waits)
    program.op("use", A, r=[(X, N)])
    analysis = program.analysis()
    assert kinds(analysis) == ([] if waits else [("race", "found")])
    if not waits:
        assert [(e.source, e.target) for e in analysis.findings[0].edges] == [(2, 1)]


def test_a_synchronous_collective_runs_on_the_current_stream() -> None:
    program = Writer()
    program.op("fill", A, w=[(X, N)])
    number = program.op("c10d.allreduce_.default", A, r=[(X, N)])
    program.add("out", i=number, s=A, w=[[0, X, N]])
    program.op("use", A, r=[(X, N)])
    assert program.analysis().findings == ()


def test_memory_of_a_collective_is_recorded_on_its_stream() -> None:
    program = Writer()
    program.made("fill", X, N, A)
    collective(program, waits=False)
    program.add("free", p=X)
    program.made("next", X, N, A)
    assert program.analysis().findings == ()


def test_a_killed_process_leaves_its_collective_placed() -> None:
    program = Writer()
    program.op("fill", B, w=[(X, N)])
    program.op("c10d.allreduce_.default", A, r=[(X, N)])
    assert kinds(program.analysis()) == [("race", "found")]


# ---- buckets


def bucket(program: Writer, *waited: int) -> None:
    """Three copies into one bucket on A, B and A; reduced on RED."""
    for k, (stream, parameter) in enumerate(((A, "w0"), (B, "w1"), (A, "w2"), (104, "w3"))):
        program.op(
            "aten.copy_.default", stream, w=[(BUCKET + k * N, N)], node="AccumulateGrad",
            at="ds.py:97 hook", param=parameter,
        )  # fmt: skip
    for stream in waited:
        program.cross(stream, RED)


def test_a_bucket_names_every_producer_that_was_not_waited_for() -> None:
    program = Writer()
    bucket(program, A)
    program.add("mark", name="reduce_begin", s=RED, bucket="ipg", r=[[0, BUCKET, 4 * N]])
    program.op("aten.div_.Tensor", RED, w=[(BUCKET, 4 * N)], at="ds.py:100 reduce")
    program.add("mark", name="reduce_end", s=RED)
    analysis = program.analysis()
    (finding,) = analysis.findings
    assert (finding.kind, finding.count) == (Kind.BUCKET_RACE, 1)
    assert [(one.stream, one.parameter) for one in finding.earlier] == [(2, "w1"), (3, "w3")]
    assert {(e.source, e.target) for e in finding.edges} == {(2, 4), (3, 4)}
    assert finding.proof is not None
    assert finding.proof.proved
    waited = Writer()
    bucket(waited, A, B, 104)
    waited.records += program.records[-3:]
    assert waited.analysis().findings == ()


@pytest.mark.parametrize("operator", ["c10d.allreduce_.default", "aten.copy_.default"])
def test_a_bucket_is_recognized_by_its_use(operator: str) -> None:
    program = Writer()
    bucket(program, A)
    program.op(operator, RED, r=[(BUCKET, 4 * N)], at="train.py:5 step")
    (finding,) = program.analysis().findings
    assert finding.kind is Kind.BUCKET_RACE
    assert [one.parameter for one in finding.earlier] == ["w1", "w3"]
    assert finding.bucket is not None
    assert finding.bucket.data.size == 4 * N


def test_what_one_operator_filled_is_no_bucket() -> None:
    program = Writer()
    program.op("aten.cat.default", A, w=[(BUCKET, 4 * N)])
    program.op("c10d.allreduce_.default", RED, r=[(BUCKET, 4 * N)])
    assert kinds(program.analysis()) == [("race", "found")]


def test_the_same_mistake_in_every_step_is_one_finding() -> None:
    program = Writer()
    for _ in range(3):
        program.add("mark", name="step")
        bucket(program, A)
        program.op("c10d.allreduce_.default", RED, r=[(BUCKET, 4 * N)], at="train.py:5 step")
        program.add("sync_dev")
    analysis = program.analysis()
    (finding,) = analysis.findings
    assert finding.count == 3
    assert len(finding.earlier) == 2
    assert finding.proof is not None
    assert finding.proof.proved  # the waits go in before each of the three
    assert analysis.coverage.steps == 3


# ---- backward


def backward(program: Writer, begin: int, node: int, *, waits: tuple[int, int] | None) -> None:
    """``backward`` called on one stream, with its first node on another, in thread 2."""
    program.add("mark", name="backward_begin", s=begin, r=[[0, X, N]], at="a.py:7 train")
    if waits:
        program.cross(*waits)
    program.add("node", t=2, name="MulBackward0", s=node, r=[[0, X, N]])
    program.op("aten.mul.Tensor", node, r=[(X, N)], node="MulBackward0", t=2)
    program.add("mark", name="backward_end", s=begin)


def test_backward_knows_what_its_caller_has_waited_for() -> None:
    program = Writer()
    program.op("fill", A, w=[(X, N)])
    program.add("sync_dev")
    backward(program, B, B, waits=None)
    assert program.analysis().findings == ()


def test_the_caller_knows_what_a_backward_hook_has_waited_for() -> None:
    program = Writer()
    program.op("fill", A, w=[(Y, N)])
    program.add("mark", name="backward_begin", s=0, r=[[0, X, N]])
    program.add("node", t=2, name="MulBackward0", s=0, r=[[0, X, N]])
    program.add("sync_st", t=2, s=A)
    program.add("mark", name="backward_end", s=0)
    program.op("use", B, r=[(Y, N)])
    assert program.analysis().findings == ()


def test_memory_of_a_gradient_is_recorded_by_the_engine() -> None:
    """A gradient from a node on A to a node on B; freed there, handed out to A again."""
    program = Writer()
    program.add("mark", name="backward_begin", s=0, r=[])
    program.add("node", t=2, name="First", s=A, r=[])
    program.made("grad", X, N, A, t=2, node="First")
    program.cross(A, B)
    program.add("node", t=2, name="Second", s=B, r=[[0, X, N]])
    program.op("use", B, r=[(X, N)], t=2, node="Second")
    program.add("free", p=X, t=2)
    program.made("next", X, N, A, t=2)
    program.add("mark", name="backward_end", s=0)
    assert program.analysis().findings == ()


def test_memory_of_an_initial_gradient_is_the_callers_to_record() -> None:
    """Filled on A, called and consumed on B: the engine sees one stream only."""
    program = Writer()
    program.made("grad", X, N, A)
    program.cross(A, B)
    backward(program, B, B, waits=None)
    program.add("free", p=X)
    program.made("next", X, N, A)
    assert kinds(program.analysis()) == [("reuse", "found")]


# ---- ranges


def test_columns_of_one_matrix_do_not_meet() -> None:
    program = Writer()
    program.op("left", A, w=[(X, 56, 8, 16, 4)])
    program.op("right", B, r=[(X + 8, 56, 8, 16, 4)])
    assert program.analysis().findings == ()
    program.op("shifted", B, r=[(X + 4, 56, 8, 16, 4)])
    assert kinds(program.analysis()) == [("race", "found")]


def test_an_expanded_tensor_is_its_own_few_bytes() -> None:
    program = Writer()
    program.op("fill", A, w=[(X, 4)])
    program.op("other", A, w=[(X + 4, 4)])
    program.cross(A, B)
    program.op("other again", A, w=[(X + 4, 4)])
    program.op("read", B, r=[(X, 4, 4, 0, 65536)])
    assert program.analysis().findings == ()


def test_bounding_boxes_that_meet_are_unknown() -> None:
    program = Writer()
    program.op("irregular", A, w=[(X, 64, 4, -1, 7)])
    program.op("read", B, r=[(X + 32, 64)])
    analysis = program.analysis()
    assert kinds(analysis) == [("race", "unknown")]
    assert analysis.findings[0].doubt == "approximate"
    assert ("approximate ranges", 1) in analysis.coverage.unseen


def test_what_covers_a_bounding_box_meets_what_is_in_it() -> None:
    for first, second in (("index_put", "all"), ("all", "index_put")):
        program = Writer()
        ranges: dict[str, tuple[int, ...]] = {"index_put": (X, 64, 4, -1, 7), "all": (X - 8, 80)}
        program.op(first, A, w=[ranges[first]])
        program.op(second, B, w=[ranges[second]])
        assert kinds(program.analysis()) == [("race", "found")]


def test_names_are_those_of_the_tensors_that_have_the_bytes() -> None:
    program = Writer()
    program.made("weights", X, 256, A)
    program.add("mark", name="name", tensor="layers.0.weight", r=[[0, X, 256]])
    program.op("read", B, r=[(X + 64, 64)])
    data = program.analysis().findings[0].earlier[0].data
    assert (data.tensor, data.offset, data.size, data.whole) == ("layers.0.weight", 64, 64, 256)
    program.add("sync_dev")
    program.add("free", p=X)
    program.made("something else", X, 256, A)
    program.op("reads the new tensor", B, r=[(X, 256)])
    assert [one.earlier[0].data.tensor for one in program.analysis().findings] == [
        "layers.0.weight",
        "",
    ]


# ---- the whole log


def test_a_log_without_operators_says_nothing() -> None:
    analysis = Writer().analysis()
    assert (analysis.verdict, analysis.exit_code) == (Verdict.UNKNOWN, 3)


@pytest.mark.parametrize("where", ["meta", "coverage"])
def test_a_log_without_events_orders_nothing(where: str) -> None:
    program = Writer()
    program.op("write", A, w=[(X, N)])
    program.op("read", B, r=[(X, N)])
    if where == "coverage":
        program.add("coverage", edges=False, unseen={"events": None})
    analysis = program.analysis(**({"edges": False} if where == "meta" else {}))
    assert kinds(analysis) == [("race", "unknown")]
    assert analysis.verdict is Verdict.UNKNOWN


def test_two_streams_without_events_are_unknown_even_where_they_do_not_meet() -> None:
    program = Writer()
    program.op("write", A, w=[(X, N)])
    program.op("read", B, r=[(Y, N)])
    assert program.analysis(edges=False).verdict is Verdict.UNKNOWN
    assert program.analysis().verdict is Verdict.NONE_FOUND


def test_findings_that_one_wait_removes_are_one_mistake() -> None:
    program = Writer()
    for k in range(5):
        program.op(f"write{k}", A, w=[(X + k * N, N)], at=f"a.py:{k} f")
    for k in range(5):
        program.op(f"read{k}", B, r=[(X + k * N, N)], at=f"a.py:{10 + k} f")
    findings = program.analysis().findings
    assert [one.same_as for one in findings] == [0, 1, 1, 1, 1]
    assert all(one.proof and one.proof.proved for one in findings)


def test_coverage_repeats_what_the_recorder_says() -> None:
    program = Writer()
    program.op("write", A, w=[(X, N)])
    program.add("coverage", unseen={"raw Triton kernels": None, "fake tensors": 3})
    coverage = program.analysis(began="at step 3").coverage
    assert coverage.stated
    assert coverage.began == "at step 3"
    assert set(coverage.unseen) == {("raw Triton kernels", -1), ("fake tensors", 3)}
