"""Kinds of mistakes with streams, with everything that is to be said about each."""

from __future__ import annotations

from xlagraph.cause.kinds import Kind, Section

_ADD_WAIT = (
    "The missing wait is put into the log just before the later access, wherever the mistake "
    "occurs, and the log is followed again: the finding must be gone, and no other may have "
    "come."
)
_ADD_RECORD = (
    "The missing record_stream is put into the log just before the memory is freed, and the log "
    "is followed again: the finding must be gone, and no other may have come."
)

RACE = Kind(
    id="race",
    title="Two streams use the same bytes in no order",
    section=Section.STREAMS,
    meaning="Two operators on different streams access the same bytes, at least one of them "
    "writes, and no chain of events, waits and host synchronizations orders them. Which comes "
    "first depends on how long other kernels take: the result is right until a step is slower, "
    "or faster.",
    before="""\
with torch.cuda.stream(side):
    batch = host.to("cuda", non_blocking=True)
loss = model(batch)  # may begin before the copy is done
""",
    after="""\
with torch.cuda.stream(side):
    batch = host.to("cuda", non_blocking=True)
torch.cuda.current_stream().wait_stream(side)
batch.record_stream(torch.cuda.current_stream())
loss = model(batch)
""",
    evidence="Both accesses with operator, stream, autograd node, line and bytes; the two "
    "streams between which a wait is missing.",
    fix="Let the later stream wait for the earlier one: consumer.wait_stream(producer), or an "
    "event recorded after the first access and waited for before the second.",
    proof=_ADD_WAIT,
    examples=(),
)
REUSE = Kind(
    id="reuse",
    title="Memory was handed out again while another stream still used it",
    section=Section.STREAMS,
    meaning="The caching allocator gives freed memory to later work of the stream that it was "
    "allocated on, at once and without waiting for other streams. A tensor that was used on "
    "another stream and then dropped is overwritten while that stream still reads it (pytorch "
    "issue 33909). The same holds for new memory that is used on a stream which has not waited "
    "for its owner.",
    before="""\
with torch.cuda.stream(side):
    y = x * 2
del x  # its memory goes to the next tensor of the main stream
z = torch.zeros_like(y)
""",
    after="""\
with torch.cuda.stream(side):
    y = x * 2
    x.record_stream(side)
del x
z = torch.zeros_like(y)
""",
    evidence="The access that was still under way, the one to the same bytes in their next "
    "allocation, and the lines where the memory was allocated, freed and handed out again.",
    fix="Call tensor.record_stream(stream) for every other stream that uses the tensor, before "
    "the last reference goes; or keep the tensor until its own stream has waited for the others.",
    proof=_ADD_RECORD,
    examples=("000min_bug",),
)
LATENT_REUSE = Kind(
    id="latent-reuse",
    title="Memory could have been handed out again while in use; in this log it was not",
    section=Section.STREAMS,
    meaning="As reuse, but what was allocated next got other memory, by luck: another size, "
    "another order, and it is a reuse. A warning, with exit code 0.",
    before="""\
with torch.cuda.stream(side):
    y = x * 2
del x
small = torch.zeros(8, device="cuda")  # x had been larger, and was not taken this time
torch.cuda.current_stream().wait_stream(side)
""",
    after="""\
with torch.cuda.stream(side):
    y = x * 2
torch.cuda.current_stream().wait_stream(side)
del x
small = torch.zeros(8, device="cuda")
""",
    evidence="The accesses that were still under way at the free, and the allocation that could "
    "have had the memory. If the owner waits before anything is allocated, nothing is reported.",
    fix="Call tensor.record_stream(stream), or drop the tensor after its stream has waited.",
    proof=_ADD_RECORD,
    examples=(),
)
BUCKET_RACE = Kind(
    id="bucket-race",
    title="A bucket is reduced before every stream that filled it is done",
    section=Section.STREAMS,
    meaning="Gradients are copied into one buffer by hooks that run on the streams of their "
    "parameters, and the buffer is reduced on a stream that has waited for one of them only, "
    "mostly the current one (DeepSpeed issue 8061). Parts of the sum are then old or half "
    "written. A bucket is what an adapter names (DeepSpeed's average_tensor, the buckets of "
    "DistributedDataParallel), or any range that at least two operators have "
    "written when a collective or a copy reads it.",
    before="""\
def hook(param):  # runs on the stream of param's backward
    bucket[param.index].copy_(param.grad)
    if bucket.full:
        reduction.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(reduction):
            dist.all_reduce(bucket.buffer)
""",
    after="""\
def hook(param):
    bucket[param.index].copy_(param.grad)
    bucket.producers.add(torch.cuda.current_stream())
    if bucket.full:
        for stream in bucket.producers:
            reduction.wait_stream(stream)
        with torch.cuda.stream(reduction):
            dist.all_reduce(bucket.buffer)
""",
    evidence="Every copy that was not waited for, with its parameter, stream and bytes, and what"
    " reads the bucket.",
    fix="Remember the stream of every copy into the bucket and let the reduction wait for each.",
    proof=_ADD_WAIT,
    examples=("001_bug", "001c_bug"),
)
INITIAL_GRADIENT = Kind(
    id="initial-gradient",
    title="A backward pass begins before its initial gradient is filled",
    section=Section.STREAMS,
    meaning="backward(gradient=g) counts g as made by the stream that backward is called on. "
    "Where g was filled on another one, nothing makes the first node wait for it (pytorch pull "
    "request 45787, and the notes on stream semantics of backward passes). Where the order "
    "happens to hold all the same, because the engine waits for something else, it is a warning.",
    before="""\
gradient = torch.ones_like(loss)
with torch.cuda.stream(side):
    loss.backward(gradient=gradient)
""",
    after="""\
gradient = torch.ones_like(loss)
side.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(side):
    gradient.record_stream(side)
    loss.backward(gradient=gradient)
""",
    evidence="Where the gradient is filled, where backward is called, and the node that reads it.",
    fix="Fill the gradient on the stream that calls backward, or let that stream wait first.",
    proof=_ADD_WAIT,
    examples=("002_Cones", "002_C", "002_G"),
)
KINDS = (RACE, REUSE, LATENT_REUSE, BUCKET_RACE, INITIAL_GRADIENT)
