// The head of a pair: what happened, where, what to change, each one line; the rest on demand.

function pairHead(pair, tabs) {
  const { what, where, fix, notes } = pair.data.verdict;
  const compared = pair.causes.length ? pair.causes[0].compared : [];
  const proved = pair.data.proved && pair.causes.length ? h("span", { class: "proved" }, compared.length ? " ✓ proved for " : " ✓ proved", said(compared)) : "";
  const line = (title, pieces) => pieces.length && h("div", {}, h("dt", {}, title), h("dd", {}, said(pieces)));
  const rest = notes.length ? h("details", { class: "notes" }, h("summary", {}, plural(notes.length, "note")), notes.map((note) => h("p", { class: "meta" }, said(note)))) : "";
  return h("div", { class: "pair-head" },
    h("h1", {}, h("b", {}, `${pair.labels.a} → ${pair.labels.b}  `), said(what), proved),
    where.length || fix.length ? h("dl", { class: "answer" }, line("Where", where) || "", line("Fix", fix) || "") : "", rest, tabs);
}

// Where and Fix of a cause, with the lines of the program and the stack.
function causeAnswer(cause) {
  const excerpt = cause.source.length ? h("pre", { class: "excerpt", tabindex: "0", role: "group", "aria-label": "The line of the program, with those around it" },
    cause.source.map(([number, text, here]) => [h("span", { class: here ? "here" : null }, `${String(number).padStart(5)}  ${text}`), "\n"]).flat()) : "";
  const stack = cause.stack.length > 1 ? h("details", {}, h("summary", {}, `Python stack, ${cause.stack.length} frames`),
    h("ol", { class: "stack" }, cause.stack.map((frame) => h("li", { class: "code" }, frame)))) : "";
  return h("dl", { class: "answer" },
    cause.where.length ? h("div", {}, h("dt", {}, "Where"), h("dd", {}, said(cause.where), excerpt, stack)) : "",
    h("div", {}, h("dt", {}, "Fix"), h("dd", {}, said(cause.fix))));
}
