"""Kinds of what is found between ranks, with everything that is to be said about each."""

from __future__ import annotations

from xlagraph.cause.kinds import Kind, Section

_WALKED = (
    "The collectives of all ranks are walked as the runtime runs them; it is said to be certain "
    "only if no order of moves ends otherwise. Nothing is undone."
)

COLLECTIVE_HANG = Kind(
    id="collective-hang",
    title="Ranks wait for ranks that never come",
    section=Section.RANKS,
    meaning="A collective ends when all ranks of its group have come to it. Here some wait for "
    "others that have nothing more to run, or that wait themselves, at another collective, for "
    "the first: unequal numbers of steps, groups in another order, a collective that not every "
    "rank runs.",
    before="""\
for x, y in my_part_of_the_data:  # 100 batches on rank 0, 99 on rank 1
    train(x, y)  # reduces the gradients over all ranks
""",
    after="""\
for x, y in itertools.islice(my_part_of_the_data, fewest_batches):
    train(x, y)
""",
    evidence="Who stands at which collective, with line and tensors, and for whom they wait.",
    fix="Let every rank run as many steps with as many collectives: drop or pad uneven last "
    "batches, and evaluate and log on all ranks or on none.",
    proof=_WALKED,
    examples=("fewer",),
    short_fix="Let every rank run as many steps with as many collectives.",
)
COLLECTIVE_MISMATCH = Kind(
    id="collective-mismatch",
    title="Ranks meet at different collectives",
    section=Section.RANKS,
    meaning="On the devices of one group the n-th collective of each belongs together. Here they "
    "differ: another operation or size, which hangs or ends the job, or another type or reduction "
    "of one size, which gives wrong values without a word.",
    before="""\
for gradient in set_of_gradients:  # in an order of its own in every process
    xm.all_reduce(xm.REDUCE_SUM, gradient)
torch_xla.sync()
""",
    after="""\
for name in sorted(gradients):
    xm.all_reduce(xm.REDUCE_SUM, gradients[name])
torch_xla.sync()
""",
    evidence="What each rank runs there, with line and tensors, and the first way in which they "
    "differ.",
    fix="Build the step alike on every rank: no collective, and no order of collectives, may "
    "depend on the rank. Reduce on all ranks, log on one.",
    proof=_WALKED,
    examples=("order", "extra"),
    short_fix="Run the same collectives in the same order on every rank.",
)
RANK_DIVERGENCE = Kind(
    id="rank-divergence",
    title="Ranks ran different graphs in one step",
    section=Section.RANKS,
    meaning="Every rank compiles for itself, and all wait for the slowest. A rank that traces "
    "another step than the others costs a compile of its own; where the graphs hold collectives "
    "they need not match any more.",
    before="""\
for x, y in batches:
    loss = train(x, y)
    if rank == 0:
        print(loss.item())  # rank 0 runs a part of its step by itself
    torch_xla.sync()
""",
    after="""\
for x, y in batches:
    loss = train(x, y)
    torch_xla.sync()
    if rank == 0:
        print(loss.item())  # all of the step has run
""",
    evidence="The ranks, the steps, the graphs; and the cause of one graph against the other, as "
    "for any pair.",
    fix="Let every rank trace the same step: read and log on all ranks or after the step, give "
    "all ranks data of one size, and pass what depends on the rank as a tensor.",
    proof="That of the cause of one graph against the other.",
    examples=("log", "shard"),
    short_fix="Let every rank trace the same step.",
)
RANK_NUMBER = Kind(
    id="rank-number",
    title="The rank's own number is baked into its graph",
    section=Section.RANKS,
    meaning="The graphs of the ranks are the same but for numbers that grow evenly with the rank: "
    "each takes its part out of one tensor at places of its own, say. Nothing hangs, but every "
    "rank compiles a graph that no other has, and a cache that they share helps none.",
    before="""\
mine = everything[rank * 8 : (rank + 1) * 8]  # on the device: a slice with fixed bounds
loss = model(mine).mean()
""",
    after="""\
mine = everything_on_the_host[rank * 8 : (rank + 1) * 8].to(device)
loss = model(mine).mean()
""",
    evidence="The places, with the number on the first rank and what it grows by.",
    fix="Take the rank's part on the host, or pass the number as a tensor.",
    proof="All differences are such numbers, on a line at every place. Nothing is undone.",
    examples=("index",),
    short_fix="Take the rank's part on the host.",
)
KINDS = (COLLECTIVE_HANG, COLLECTIVE_MISMATCH, RANK_DIVERGENCE, RANK_NUMBER)
