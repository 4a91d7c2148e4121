"""Kinds of reasons that only a whole run shows, and those that say that there is no cause."""

from __future__ import annotations

from xlagraph.cause.kinds import Kind, Section

_NOT_UNDONE = "Nothing is undone: this is read off the run's records."
FIRST_GRAPH = Kind(
    id="first-graph",
    title="The first graphs of a program, or of a part of it",
    section=Section.RUN,
    meaning="Setting up, the first training step, the first evaluation, the second of two kinds "
    "of step that take turns: each has a graph that must be compiled once. A graph is the first "
    "of another part of the program if the read (.item()) or the step is the first at its place "
    "and its call site stands behind the end of every other training step, so that nothing of one "
    "was pending; or if it ends a step before any training step came again. Where that cannot be "
    "told (loops that begin with torch_xla.sync(), as with a parallel loader, or a read before "
    "the step's end) it is early-execution, whose fix names both. Two steps that take turns at "
    "one call site (two optimizers, say) cannot be told from a step that changes back and forth: "
    "the second counts as a problem.",
    before="",
    after="",
    evidence="Where the step ends, and what had run there before.",
    fix="None needed.",
    proof=_NOT_UNDONE,
    examples=("stable", "late_evaluation", "two_step_kinds"),
    short="The first graphs of the program",
    is_cause=False,
)
BY_DESIGN = Kind(
    id="by-design",
    title="Steps of several kinds, each with a graph of its own",
    section=Section.RUN,
    meaning="A training may consist of several kinds of step: micro-batches whose gradients are "
    "kept, others that add to them, the update behind them; an evaluation that updates nothing; "
    "updates of different parameters in turn (two heads, a generator and a discriminator); what "
    "has a sync at a line of its own (an average over models, a report) and leaves the other steps "
    "as they were. Each kind has a graph, compiled once and hit from then on. What a graph "
    "updates, which gradients it takes in and in which order the graphs follow each other tell the "
    "kinds apart. An update "
    "of more or fewer of the same parameters is no kind of its own (newly-updated), nor is what "
    "updates nothing now and then, in no order.",
    before="",
    after="",
    evidence="What each graph updates and gives out, and the order in which they run.",
    fix="None needed.",
    proof=_NOT_UNDONE,
    examples=("accumulated_adam", "two_heads", "evaluation_phase", "tasks_in_rotation"),
    short="Steps of several kinds, each with its own graph",
    is_cause=False,
)
GROWING_GRAPH = Kind(
    id="growing-graph",
    title="The graph grows with every step",
    section=Section.RUN,
    meaning="Three or more graphs of one line, each compiled in the turn after the one before and "
    "larger than it, and none comes again but in this order: something is kept from step to step, "
    "and used or kept alive again. A list of losses that is summed, a history of tensors that were "
    "never detached.",
    before="""\
losses = []
for x, y in loader:
    loss = loss_fn(model(x), y)
    losses.append(loss.detach())
    mean = sum(losses) / len(losses)  # one more input and one more addition each time
    update(loss)
""",
    after="""\
total = torch.zeros((), device="xla")
steps = torch.zeros((), device="xla")
torch_xla.sync()
for x, y in loader:
    loss = loss_fn(model(x), y)
    total += loss.detach()
    steps += 1
    mean = total / steps
    update(loss)
""",
    evidence="The line, and the sizes of the graphs.",
    fix="Something is kept from step to step and used, or kept alive, again: keep plain numbers "
    "(fetched after torch_xla.sync()) or detached tensors on the host instead, or update one "
    "running tensor in place.",
    proof="That of its single steps.",
    examples=("leak_running_loss", "leak_pending", "metric_list", "clouds_and_list"),
    short_fix="Keep plain numbers, not tensors, from step to step.",
)
CHANGING_UPDATES = Kind(
    id="changing-updates",
    title="Another set of parameters is updated in many steps",
    section=Section.RUN,
    meaning="All graphs take in the same parameters, and each updates another part of them: an "
    "optimizer passes over parameters whose gradient is None, which the program decides by the "
    "batch (adapters of tenants, experts, tasks without data), so each choice is a graph of its "
    "own. Which state there is, how many gradients are alive, and which step counts are equal and "
    "so one parameter of the graph, differ as a consequence.",
    before="""\
model.requires_grad_(False)  # only its adapters are trained
adapters = nn.ParameterList([nn.Parameter(torch.ones(4)) for _ in range(3)]).to("xla")
optimizer = torch.optim.SGD(adapters, lr=0.05)
absent = [(2,), (0,), (), (1,), (0, 2), (1,), (2,), (0, 1), (0,)]  # what the batches leave out
for (x, y), without in zip(loader, absent):
    loss_fn(model(x) * sum(adapters), y).backward()
    for k in without:
        adapters[k].grad = None
    optimizer.step()
    optimizer.zero_grad()
    torch_xla.sync()
""",
    after="""\
model.requires_grad_(False)  # only its adapters are trained
adapters = nn.ParameterList([nn.Parameter(torch.ones(4)) for _ in range(3)]).to("xla")
optimizer = torch.optim.SGD(adapters, lr=0.05)
absent = [(2,), (0,), (), (1,), (0, 2), (1,), (2,), (0, 1), (0,)]
for (x, y), without in zip(loader, absent):
    present = torch.tensor([float(k not in without) for k in range(3)]).to("xla")
    loss_fn(model(x) * sum(adapters), y).backward()
    for adapter, factor in zip(adapters, present.unbind()):
        adapter.grad.mul_(factor)
    optimizer.step()
    optimizer.zero_grad()
    torch_xla.sync()
""",
    evidence="The parameters that each graph takes in and updates, by name.",
    fix="Let every step update all of them: multiply the gradients of those that shall stay by 0, "
    "taken in as a tensor, in place of setting them to None. Where weight decay or momentum would "
    "move them all the same, select the new value or the old one with torch.where.",
    proof=_NOT_UNDONE,
    examples=("adapters_in_turn",),
    entails=("optimizer-state", "shared-scalar"),
    short="Each step updates another set of parameters",
    short_fix="Update all in every step; multiply their gradients by 0 or 1.",
)
REPEATED_HOOK = Kind(
    id="repeated-hook",
    title="A hook is attached again and again",
    section=Section.RUN,
    meaning="register_forward_hook and its like do not replace a hook: each call adds one, and "
    "what the hook computes stands in the graph once more from then on. A program that attaches "
    "its hooks in each epoch without taking them away again has another graph each time, and the "
    "graphs grow. Named where the instructions of a hook are once, twice and three times as many "
    "in graphs whose modules compute as much as before; hooks of optimizers and of gradients "
    "count too. So it is where a hook only fills a list, which then is once, twice and three times "
    "as long. Where the hook is attached stands in no graph: that is read from the program's text, "
    "where one function alone attaches it.",
    before="""\
seen = []
def record(module, inputs, output):
    seen.append(output.detach().abs().mean())
for step, (x, y) in enumerate(loader):
    if step % 3 == 0:
        model.register_forward_hook(record)  # the earlier ones stay
    loss = loss_fn(model(x), y)
    activity = sum(seen)
    seen.clear()
    update(loss)
""",
    after="""\
seen = []
def record(module, inputs, output):
    seen.append(output.detach().abs().mean())
model.register_forward_hook(record)
for x, y in loader:
    loss = loss_fn(model(x), y)
    activity = sum(seen)
    seen.clear()
    update(loss)
""",
    evidence="The line in the hook, and how often each graph computes it.",
    fix="Attach the hook once, before the loop. Or keep the handle that register_forward_hook and "
    "its like return, and call handle.remove() before the hook is attached again.",
    proof=_NOT_UNDONE,
    examples=("hooks_again",),
    short="A hook is attached again and again",
    short_fix="Attach the hook once, or call handle.remove() first.",
)
SAME_GRAPH = Kind(
    id="same-graph",
    title="The same computation was compiled again, under another cache key",
    section=Section.RUN,
    meaning="torch_xla's cache key is made of more than the module: the hashes of the live "
    "tensors' IR, the sequence of parameters, donated buffers, shardings, the device and XLA's "
    "flags. A view that changes nothing, traced in some steps, gives the same module and another "
    "key.",
    before="""\
total = torch.zeros((), device="xla")
torch_xla.sync()
with torch.no_grad():
    for step, (x, y) in enumerate(loader):
        out = model(x)
        if step % 4 == 3:
            out = torch.view_copy(out, out.shape)  # changes nothing but the key
        total += out.sum()
        torch_xla.sync()
""",
    after="""\
total = torch.zeros((), device="xla")
torch_xla.sync()
with torch.no_grad():
    for x, y in loader:
        total += model(x).sum()
        torch_xla.sync()
""",
    evidence="The components of the key that differ, when the capture has them.",
    fix="Trace the same operations in every step.",
    proof="The modules are equal, word for word.",
    examples=("other_key",),
    is_cause=False,
    short="The same computation was compiled again",
)
UNPRINTED_VALUES = Kind(
    id="unprinted-values",
    title="Compiled again, with a large constant whose values are not known",
    section=Section.RUN,
    meaning="XLA's text leaves out the values of constants with more than ten elements. Where the "
    "rest is the same word for word and yet was compiled again, these may be what differs: a "
    "Python list, a mask or a torch.arange with Python bounds that is made on the device.",
    before="""\
def step(start):
    positions = torch.arange(start, start + 16, device="xla")  # a constant of the graph
    update(loss_fn(model(tokens, positions)))
""",
    after="""\
offset = torch.tensor([0], device="xla")
def step(start):
    positions = torch.arange(16, device="xla") + offset.copy_(torch.tensor([start]))
    update(loss_fn(model(tokens, positions)))
""",
    evidence="How many constants have no values.",
    fix="Capture with XLAGRAPH=1 in place of XLAGRAPH=watch: that keeps their values and names the "
    "line.",
    proof="None: the values are not in the graphs that were stored.",
    examples=(),
    short="A large constant may have other values",
    short_fix="Capture with XLAGRAPH=1, which keeps the values.",
)
UNLIKE_GRAPH = Kind(
    id="unlike-graph",
    title="Where others had run, a graph ran that is like none before it",
    section=Section.RUN,
    meaning="No earlier graph is near enough to be compared with.",
    before="",
    after="",
    evidence="The call site.",
    fix="Look at what the program does at that line.",
    proof=_NOT_UNDONE,
    examples=(),
    is_cause=False,
    short="A graph like none before it ran",
)
UNEXPLAINED = Kind(
    id="unexplained",
    title="No known cause fits",
    section=Section.RUN,
    meaning="The graphs differ, and nothing that is suspected stands up to being undone. The line "
    "is the one that all of what differs was called from.",
    before="",
    after="",
    evidence="The instructions that differ.",
    fix="Look at the two modules side by side.",
    proof=_NOT_UNDONE,
    examples=(),
    is_cause=False,
)
KINDS = (
    FIRST_GRAPH,
    BY_DESIGN,
    GROWING_GRAPH,
    CHANGING_UPDATES,
    REPEATED_HOOK,
    SAME_GRAPH,
    UNPRINTED_VALUES,
    UNLIKE_GRAPH,
    UNEXPLAINED,
)
