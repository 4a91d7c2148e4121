"""What findings, edges and coverage are called in English; the only place with sentences."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xlagraph.message import Code, Message, SourceLine, count, join, say
from xlagraph.streams.drift import Change
from xlagraph.streams.model import Kind, State, Verdict
from xlagraph.streams.unseen import is_ours
from xlagraph.tensors import Tensor

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from xlagraph.streams.drift import Difference, Drift, Work
    from xlagraph.streams.model import (
        Access,
        Analysis,
        Bytes,
        Coverage,
        Edge,
        Finding,
        Lifetime,
        Stream,
    )

DOUBTS = {
    "approximate": "only the bounding boxes of the two accesses are known to meet",
    "event": "a stream waited for an event in between that the log does not record",
    "threads": "a host thread had waited for the first one, and the log does not say whether the "
    "thread that launched the second one knew",
    "allocation": "the memory was allocated before the log began, perhaps with record_stream",
    "edges": "the log has no waits between streams",
}
ACCUMULATE = "AccumulateGrad"
"""The node of a parameter. What its hooks do, such as sending a bucket, is done within it."""
_KNOWN_OPERATORS = ("aten.", "c10d.", "_c10d_functional.", "c10d_functional.", "cuda_graph_replay")


def stream_name(stream: Stream) -> str:
    """``the default stream``, ``stream 2``: numbers are given by first use."""
    if not stream.is_default:
        return f"stream {stream.number}"
    return "the default stream" + (f" of cuda:{stream.device}" if stream.device else "")


def names(streams: Sequence[Stream], numbers: Iterable[int]) -> str:
    """Several streams in a row: ``stream 2, stream 3 and the default stream``."""
    listed = [stream_name(streams[number - 1]) for number in dict.fromkeys(numbers)]
    return listed[0] if len(listed) == 1 else f"{', '.join(listed[:-1])} and {listed[-1]}"


def headline(analysis: Analysis) -> Finding | None:
    """The finding whose title is the verdict, if one is."""
    return next(iter(_mistakes(analysis)), None) if analysis.verdict is Verdict.FOUND else None


def _mistakes(analysis: Analysis) -> list[Finding]:
    """What was found, each mistake once."""
    return [one for one in analysis.findings if one.state is State.FOUND and not one.same_as]


def verdict(analysis: Analysis) -> Message:
    """The answer to a log, in a sentence or two."""
    if analysis.verdict is Verdict.FOUND:
        found = _mistakes(analysis)
        more = f" {count(len(found) - 1, 'more mistake')} below." if len(found) > 1 else ""
        return say("Found: ", title(found[0], analysis.streams), ".", more)
    if analysis.verdict is Verdict.UNKNOWN:
        if not analysis.coverage.operators:
            return say("Order unknown: the log holds no operator.")
        return say("Order unknown: the log does not say what would order the accesses below.")
    warnings = sum(1 for one in analysis.findings if one.state is State.WARNING)
    extra = f" {count(warnings, 'warning')}." if warnings else ""
    return say("None found in what was seen.", extra)


def title(finding: Finding, streams: Sequence[Stream]) -> Message:
    """What is wrong, in one sentence without its full stop."""
    return _TITLES[finding.kind](finding, streams)


def _race(finding: Finding, streams: Sequence[Stream]) -> Message:
    first, later = finding.earlier[0], finding.later
    assert later is not None
    return say(
        f"on {stream_name(streams[later.stream - 1])}, ", operator(later.operator),
        f" {_verb(later)} ", data_name(later.data), " while ", actor(first, streams),
        f" may still {_may(first)} it",
    )  # fmt: skip


def _reuse(finding: Finding, streams: Sequence[Stream]) -> Message:
    first, later = finding.earlier[0], finding.later
    assert later is not None
    return say(
        "memory was handed out again to ", actor(later, streams), " while ",
        actor(first, streams), f" may still {_may(first)} it",
    )  # fmt: skip


def _latent(finding: Finding, streams: Sequence[Stream]) -> Message:
    users = names(streams, (access.stream for access in finding.earlier))
    life = finding.lifetime
    assert life is not None
    return say(
        f"{size(life.size)} were freed while {users} still used them: an allocation on "
        f"{stream_name(streams[life.stream - 1])} could have had them; in this log none did"
    )


def _bucket(finding: Finding, streams: Sequence[Stream]) -> Message:
    later, bucket = finding.later, finding.bucket
    assert later is not None
    assert bucket is not None
    fillers = names(streams, (access.stream for access in finding.earlier))
    has = "have" if len({access.stream for access in finding.earlier}) > 1 else "has"
    return say(
        bucket_name(finding),
        f" is reduced on {stream_name(streams[later.stream - 1])} before {fillers} {has} filled "
        f"{count(len(finding.earlier), 'part')} of it",
    )


def bucket_name(finding: Finding) -> Message:
    """``bucket ipg``, ``the ipg bucket``, ``DDP bucket 0 of Net``, or its size."""
    bucket = finding.bucket
    assert bucket is not None
    if bucket.name:
        numbered = any(part.isdigit() for part in bucket.name.split())
        article = "the " if " " in bucket.name else "bucket "
        return say("" if numbered else article, Code(bucket.name))
    return say(f"a bucket of {size(bucket.data.size)}")


def _gradient(finding: Finding, streams: Sequence[Stream]) -> Message:
    filler = stream_name(streams[finding.earlier[0].stream - 1])
    caller = stream_name(streams[finding.backward_stream - 1])
    if finding.later is None:
        return say(
            f"the initial gradient is filled on {filler} and backward is called on {caller} "
            "without a wait: unsafe by contract, in order here"
        )
    reader = stream_name(streams[finding.later.stream - 1])
    return say(f"backward reads its initial gradient on {reader} before {filler} has filled it")


_TITLES = {
    Kind.RACE: _race,
    Kind.REUSE: _reuse,
    Kind.LATENT_REUSE: _latent,
    Kind.BUCKET_RACE: _bucket,
    Kind.INITIAL_GRADIENT: _gradient,
}


def actor(access: Access, streams: Sequence[Stream]) -> Message:
    """``aten.copy_ on stream 2``."""
    return say(operator(access.operator), f" on {stream_name(streams[access.stream - 1])}")


def access_text(access: Access, streams: Sequence[Stream]) -> Message:
    """One access: operator, stream, bytes, node and lines."""
    parts = [say(actor(access, streams), f" {_verb(access)} ", bytes_text(access.data))]
    own = access.node.endswith(ACCUMULATE)
    if access.parameter and not own:
        parts.append(say("for parameter ", parameter(access.parameter)))
    if access.node:
        forward = say(" of ", site(access.forward_site)) if access.forward_site else ""
        if own and access.parameter:
            forward = say(" of parameter ", parameter(access.parameter))
        parts.append(say("in ", node(access.node), forward))
    place = say("  [", site(access.site), "]") if access.site else ""
    return say(join(parts, len(parts)), place)


def lifetime_text(life: Lifetime, streams: Sequence[Stream]) -> Message:
    """An allocation's beginning, end, and what came after."""
    begin = say(", allocated at ", site(life.allocated_at)) if life.allocated_at else say()
    owner = f" for {stream_name(streams[life.stream - 1])}" if life.stream else ""
    freed = site(life.freed_at) if life.freed_at else f"line {life.freed_line} of the log"
    taken = say(", then an allocation at ", site(life.taken_at)) if life.taken_at else say()
    return say(size(life.size), begin, owner, ", freed at ", freed, taken)


def missing(finding: Finding, streams: Sequence[Stream]) -> Message:
    """The missing edge, in one sentence."""
    edge = finding.edges[0]
    users = names(streams, (one.source for one in finding.edges))
    at = say(" at ", site(edge.site)) if edge.site else say(f" (line {edge.line} of the log)")
    target = stream_name(streams[edge.target - 1])
    if edge.action == "record_stream":
        return say(
            "Before the memory is freed", at,
            f", nothing records it on {users} or makes {target} wait for {users}.",
        )  # fmt: skip
    what = "backward is called" if finding.kind is Kind.INITIAL_GRADIENT else "that"
    return say(f"Nothing makes {target} wait for {users} before {what}", at, ".")


def fix(finding: Finding, streams: Sequence[Stream]) -> Message:
    """What to change, in a sentence or two."""
    edge = finding.edges[0]
    sources = names(streams, (one.source for one in finding.edges))
    target = stream_name(streams[edge.target - 1])
    if edge.action == "record_stream":
        return say(
            f"Call tensor.record_stream(s) for {sources} before the last reference goes, or keep "
            f"the tensor until {target} has waited for {sources}."
        )
    if finding.kind is Kind.BUCKET_RACE:
        return say(
            f"Remember the stream of every copy into the bucket, and let {target} wait for each "
            f"(here {sources}) before it reduces: reduction_stream.wait_stream(s)."
        )
    if finding.kind is Kind.INITIAL_GRADIENT:
        return say(
            f"Fill the gradient on the stream that calls backward, or let {target} wait for "
            f"{sources} first: torch.cuda.current_stream().wait_stream(s), and "
            "gradient.record_stream(torch.cuda.current_stream())."
        )
    return say(
        f"Let {target} wait for {sources} there: consumer.wait_stream(producer), or an event."
    )


def proof_text(finding: Finding) -> Message:
    """What was put into the log, and what came of it."""
    proof = finding.proof
    assert proof is not None
    what = "that wait" if finding.edges[0].action == "wait" else "that record_stream"
    if len(finding.edges) > 1:
        what = "those waits" if finding.edges[0].action == "wait" else "those record_streams"
    if not proof.alone:
        what += " and those of the other findings"
    gone = "the finding is gone" if proof.vanished else "the finding is still there"
    more = f"{count(proof.appeared, 'other')} appeared" if proof.appeared else "no other appears"
    ending = "" if proof.proved else ": take it as a suspicion"
    return say(f"with {what} put into the log, {gone} and {more}{ending}.")


def doubt_text(finding: Finding) -> Message:
    """Why its order is unknown."""
    return say(DOUBTS[finding.doubt])


def coverage_lines(coverage: Coverage) -> Iterator[Message]:
    """What was seen and what was not, a line each."""
    steps = f" in {count(coverage.steps, 'step')}" if coverage.steps else ""
    yield say(
        f"{coverage.operators:,} operators{steps} on {count(coverage.streams, 'stream')} from "
        f"{count(coverage.threads, 'host thread')}; {coverage.records:,} records."
    )
    if coverage.began:
        yield say("Recording began ", _recorder(coverage.began), ".")
    for what, times in coverage.unseen:
        yield say("Not seen: ", _recorder(what), f" ({times:,})." if times >= 0 else ".")
    if not coverage.stated:
        yield say("The log does not say what its recorder could not see.")
    if not coverage.whole:
        yield say("The log ends in the middle: its writer was killed, or the file is cut off.")


def drift_lines(drift: Drift) -> Iterator[Message]:
    """How the steps compare, and the first difference of each pair that differs."""
    if drift.steps < 2:
        return
    if not drift.differences:
        yield say(f"All {drift.steps} steps ran the same operators on the same streams.")
        return
    for one in drift.differences:
        yield difference_text(one)


def difference_text(one: Difference) -> Message:
    """The first difference between two steps, in a sentence."""
    head = f"Step {one.after} differs from step {one.before}, first at operator {one.at + 1}: "
    if one.change is Change.STREAM:
        old, new = one.old[0], one.new[0]
        more = f" ({count(one.moved, 'operator')} in all)" if one.moved > 1 else ""
        ran = f" ran on {role(new.stream)}, before on {role(old.stream)}{more}."
        return say(head, work_name(new), ran)
    if one.change is Change.WAITS:
        old, new = one.old[0], one.new[0]
        return say(head, work_name(new), f" waited for {roles(new)}, before for {roles(old)}.")
    return say(
        f"{head}{count(len(one.old), 'operator')} only in step {one.before}, "
        f"{count(len(one.new), 'operator')} only in step {one.after}."
    )


def work_name(work: Work) -> Message:
    """An operator of a step with its line."""
    return say(operator(work.operator), say(" at ", site(work.site)) if work.site else "")


def role(stream: int) -> str:
    """A stream by its part in the step."""
    if stream > 0:
        return f"side stream {stream}"
    return "the default stream" + (f" of cuda:{-stream}" if stream else "")


def roles(work: Work) -> str:
    """The streams that an operator waited for."""
    return " and ".join(map(role, work.waits)) or "none"


def bytes_text(data: Bytes) -> Message:
    """Bytes as a person finds them: the tensor with its offset, else the allocation."""
    whole = data.whole or data.size
    is_all = data.size == whole
    span = (
        f"all {size(data.size)}"
        if is_all
        else f"bytes {data.offset:,} to {data.offset + data.size - 1:,}"
    )
    if data.tensor:
        return say(Tensor("", data.tensor), f" ({span})")
    if not data.whole:
        return say(f"{size(data.size)} at {data.start:#x}")
    return say(size(data.size) if is_all else f"{span} of an allocation of {size(data.whole)}")


def data_name(data: Bytes) -> Message:
    """The tensor's name, or its size."""
    return say(Tensor("", data.tensor)) if data.tensor else say(size(data.size))


def size(number: int) -> str:
    """``512 bytes``, ``4.0 MiB``."""
    value, units = float(number), ("KiB", "MiB", "GiB", "TiB")
    if value < 1024:
        return count(number, "byte")
    for unit in units:
        value /= 1024
        if value < 1024 or unit == units[-1]:
            break
    return f"{value:.1f} {unit}"


def edge_text(edge: Edge, streams: Sequence[Stream]) -> str:
    """One missing edge, for a table."""
    source = stream_name(streams[edge.source - 1])
    if edge.action == "record_stream":
        return f"record_stream({source})"
    return f"{stream_name(streams[edge.target - 1])} waits for {source}"


def operator(name: str) -> Message:
    """An operator without its overload: ``aten.copy_``; one of the program's own is its code."""
    head, dot, overload = name.rpartition(".")
    short = head if dot and "." in head and overload.isidentifier() else name
    return say(short if short.startswith(_KNOWN_OPERATORS) else Code(short))


def node(name: str) -> Message:
    """An autograd node: ``MulBackward0``; those of the program's own functions look the same."""
    return say(Code(name.rpartition("::")[2]))


def parameter(name: str) -> Message:
    """A parameter by its name."""
    return say(Tensor("", name))


def site(text: str) -> Message:
    """A place of the program, ``file:line function``."""
    place, _, function = text.partition(" ")
    file, _, line = place.rpartition(":")
    if not line.isdigit():
        return say(Code(text))
    return (
        say(SourceLine(file, int(line)), " ", Code(function))
        if function
        else say(SourceLine(file, int(line)))
    )


def _recorder(text: str) -> str | Code:
    """What a recorder says: words of xlagraph's own, or those of another program."""
    return text if is_ours(text) else Code(text)


def _verb(access: Access) -> str:
    return "writes" if access.writes else "reads"


def _may(access: Access) -> str:
    return "write" if access.writes else "read"
