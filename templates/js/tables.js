// Inputs and outputs: which position of A is which position of B.

const SLOTS_SHOWN = 1000;

function slotsPanel(pair) {
  const { data } = pair;
  return h("div", { class: "panel" }, h("div", { class: "inner" },
    slotTable(pair, "Parameters", data.parameters, "parameter", "in"),
    slotTable(pair, "Outputs, in the order in which the tensors were made", data.outputs, "output", "out"),
    ...fieldTable(pair, "Header fields that differ", data.header),
    ...fieldTable(pair, "Parts of the cache key that differ, although the graphs do not", data.key),
    h("h2", {}, "Set aside as noise"),
    h("p", {}, data.noise.length ? data.noise.join(" · ") : "Nothing.")));
}

function slotState(slot) {
  if (slot[0] === null) return "added";
  if (slot[1] === null) return "removed";
  return slot[0] === slot[1] ? "same" : "changed";
}

function slotTable(pair, title, slots, what, short) {
  const counts = { same: 0, changed: 0, added: 0, removed: 0 };
  for (const slot of slots) counts[slotState(slot)]++;
  const body = h("tbody");
  const only = h("input", { type: "checkbox", checked: counts.same < slots.length, onchange: () => draw(SLOTS_SHOWN) });
  const more = h("button", { type: "button", onclick: () => draw(Infinity) });
  const draw = (limit) => {
    const shown = slots.filter((slot) => !only.checked || slotState(slot) !== "same");
    body.replaceChildren(...shown.slice(0, limit).map((slot) => slotRow(pair, slot, short)));
    if (!shown.length) body.append(h("tr", {}, h("td", { colspan: "6" }, `Every ${what} stands where it stood.`)));
    more.hidden = shown.length <= limit;
    more.textContent = `Show ${shown.length - limit} more`;
  };
  draw(SLOTS_SHOWN);
  const { a, b } = pair.labels;
  const words = [plural(slots.length, what), counts.changed && `${counts.changed} moved`, counts.removed && `${counts.removed} only in ${a}`, counts.added && `${counts.added} only in ${b}`];
  const region = h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": title },
    h("table", { class: "map" },
      h("thead", {}, h("tr", {}, [`In ${a}`, `In ${b}`, "Tensor", "Shape", "Instruction", ""].map((text) => h("th", { scope: "col" }, text || h("span", { class: "sr" }, "Note"))))),
      body));
  return [h("h2", {}, title), h("div", { class: "bar" }, h("span", { class: "hint" }, words.filter(Boolean).join(", ")), h("label", {}, only, " only what differs")), region, more];
}

function slotRow(pair, [a, b, atA, atB, name, note], short) {
  const { modules } = pair;
  const shapeA = atA === null ? "" : modules.a.shape(atA), shapeB = atB === null ? "" : modules.b.shape(atB);
  const shape = shapeA && shapeB && shapeA !== shapeB
    ? (([x, y]) => [...marked(x), " → ", ...marked(y)])(differingParts(shapeA, shapeB))
    : soft(shapeA || shapeB);
  const links = [];
  if (atA !== null) links.push(instructionLink(pair, "a", atA));
  if (atB !== null) links.push(links.length ? " → " : "", instructionLink(pair, "b", atB));
  const state = slotState([a, b]);
  return h("tr", { class: state, id: b === null ? null : `${short}-b${b}` },
    h("td", { id: a === null ? null : `${short}-a${a}` }, a ?? "–"), h("td", {}, b ?? "–"), h("td", {}, name ? soft(name) : h("span", { class: "meta" }, "not captured")),
    h("td", {}, shape), h("td", {}, links), h("td", { class: "meta" }, note));
}

function fieldTable(pair, title, fields) {
  if (!fields.length) return [];
  const { a, b } = pair.labels;
  const table = h("table", { class: "map" },
    h("thead", {}, h("tr", {}, ["Field", `In ${a}`, `In ${b}`].map((text) => h("th", { scope: "col" }, text)))),
    h("tbody", {}, fields.map(([field, x, y]) => {
      const [left, right] = differingParts(x, y);
      return h("tr", {}, h("td", {}, field), h("td", {}, marked(left)), h("td", {}, marked(right)));
    })));
  return [h("h2", {}, title), h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": title }, table)];
}

function causesPanel(pair) {
  const cards = pair.causes.map((cause, k) => h("article", { class: `card${cause.expected ? " expected" : ""}`, id: `c${k + 1}`, tabindex: "-1" },
    h("header", {}, h("span", { class: "rank" }, k + 1), h("h2", {}, said(cause.title))),
    cause.effect.length ? h("p", { class: "effect" }, said(cause.effect)) : "",
    causeAnswer(cause),
    h("p", { class: "proof" },
      h("span", { class: "code" }, cause.kind), cause.share && !cause.proved ? `accounts for ${percent(cause.share)} of the instructions that differ` : "",
      cause.proved
        ? h("span", { class: "proved" }, cause.compared.length ? "✓ checked for " : "✓ checked", said(cause.compared), `: without ${pair.causes.length > 1 ? "these differences" : "this difference"} ${cause.compared.length ? "these" : "the two graphs"} are identical`)
        : h("span", { class: "unproved" }, "not proved"),
      cause.expected ? "expected: warm-up" : "",
      h("a", { href: `${address(pair, "i")}?cause=${k + 1}` }, "Show its instructions")),
    h("ul", { class: "evidence" },
      cause.evidence.map(([text, links, more, sources]) => h("li", {}, said(text),
        sources.map((source) => h("span", { class: "code source" }, soft(source))),
        links.map(([label, href]) => h("a", { class: "cite", href }, label)),
        more ? h("span", { class: "meta" }, ` and ${more.toLocaleString("en")} more`) : "")),
      h("li", { class: "meta" }, `${cause.proved ? "Proof" : "Tried"}: `, said(cause.proof), ".")),
    byId(`about-${cause.kind}`)?.content.cloneNode(true)));
  const left = pair.data.unexplainedA.length + pair.data.unexplainedB.length;
  return h("div", { class: "panel" }, h("div", { class: "inner" },
    cards.length ? cards : h("p", { class: "empty" }, pair.data.same ? "No cause to name: both compute the same." : "No known cause fits."),
    left ? h("p", { class: "empty" }, h("strong", {}, `${plural(left, "instruction")} unexplained. `), h("a", { href: `${address(pair, "i")}?cause=none` }, "Show them")) : ""));
}

function percent(share) {
  if (share < 0.01) return "under 1%";
  return `${Math.floor(share * 100)}%`;
}
