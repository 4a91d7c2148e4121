// Bucketed collectives: each bucket a row of its tensors, with what moved drawn as moves.

const MOVES_SHOWN = 400;

function collectivesPanel(pair) {
  const { bucketsA, bucketsB } = pair.data;
  const inner = h("div", { class: "inner" });
  const panel = h("div", { class: "panel" }, inner);
  if (!bucketsA.length && !bucketsB.length) {
    inner.append(h("p", { class: "empty" }, "Neither module has a collective that takes several tensors at once."));
    return panel;
  }
  const chips = new Map();
  const lines = svg("svg", { "aria-hidden": "true" });
  const board = h("div", { class: "buckets" },
    bucketColumn(pair, "a", bucketsA, chips), h("div"), bucketColumn(pair, "b", bucketsB, chips), lines);
  const moves = movesOf(bucketsA);
  inner.append(
    h("p", { class: "legend" },
      h("span", { class: "chip moved" }, "in another bucket"), h("span", { class: "chip alone-a" }, `only in ${pair.labels.a}`),
      h("span", { class: "chip alone-b" }, `only in ${pair.labels.b}`), h("span", { class: "chip carried" }, "↻ carried over from an earlier step")),
    board, ...movesTable(pair, moves));
  new ResizeObserver(() => drawMoves(lines, board, moves, chips)).observe(board);
  return panel;
}

function movesOf(buckets) {
  return buckets.flatMap((bucket, k) => bucket.tensors.map((tensor, position) => ({
    tensor, shape: bucket.shapes[position], from: [k, position], to: bucket.partners[position],
  }))).filter((move) => move.to && move.to[0] !== move.from[0]);
}

function bucketColumn(pair, side, buckets, chips) {
  const label = pair.labels[side];
  const title = h("h2", {}, buckets.length ? `${label}: ${plural(buckets.length, "bucket")}` : `${label} has no bucket`);
  return h("div", {}, title, buckets.map((bucket, k) => h("section", { class: "bucket", "aria-label": `${label}, bucket ${k + 1}` },
    h("p", {}, `Bucket ${k + 1} · `, h("a", { href: address(pair, "i", side + bucket.at) }, bucket.opcode), ` · ${plural(bucket.tensors.length, "tensor")}, ${bucket.carried.filter(Boolean).length} carried`),
    h("ul", { class: "chips" }, bucket.tensors.map((tensor, position) => {
      const chip = bucketChip(side, bucket, k, position, tensor);
      chips.set(`${side}${k}.${position}`, chip);
      return chip;
    })))));
}

function bucketChip(side, bucket, k, position, tensor) {
  const partner = bucket.partners[position];
  const state = !partner ? ` alone-${side}` : partner[0] !== k ? " moved" : "";
  const note = !partner ? "no counterpart" : partner[0] !== k ? `bucket ${partner[0] + 1} on the other side` : "the same bucket on the other side";
  const carried = bucket.carried[position];
  return h("li", { class: `chip${state}${carried ? " carried" : ""}`, title: `${bucket.shapes[position]}, ${note}` },
    carried ? "↻ " : "", cut(tensor, 80), h("span", { class: "sr" }, `, ${carried ? "carried, " : ""}${note}`));
}

function drawMoves(lines, board, moves, chips) {
  const frame = board.getBoundingClientRect();
  lines.replaceChildren(...moves.slice(0, MOVES_SHOWN).map((move) => {
    const from = chips.get(`a${move.from[0]}.${move.from[1]}`), to = chips.get(`b${move.to[0]}.${move.to[1]}`);
    const x1 = from.closest(".bucket").getBoundingClientRect().right - frame.left, y1 = lineHeight(from, frame, move.from[1]);
    const x2 = to.closest(".bucket").getBoundingClientRect().left - frame.left, y2 = lineHeight(to, frame, move.to[1]);
    const bend = (x2 - x1) / 2;
    const path = svg("path", { d: `M${x1},${y1} C${x1 + bend},${y1} ${x2 - bend},${y2} ${x2},${y2}` });
    for (const chip of [from, to]) {
      chip.onpointerenter = () => [path, from, to].forEach((e) => e.classList.add("on"));
      chip.onpointerleave = () => [path, from, to].forEach((e) => e.classList.remove("on"));
    }
    return path;
  }));
}

// Chips of one line leave their bucket a little apart.
function lineHeight(chip, frame, position) {
  const box = chip.getBoundingClientRect();
  return box.top + box.height / 2 - frame.top + ((position % 3) - 1) * 4;
}

function movesTable(pair, moves) {
  if (!moves.length) return [h("p", { class: "hint" }, "No tensor moved from one bucket to another.")];
  const { a, b } = pair.labels;
  return [h("h2", {}, plural(moves.length, "tensor moved", "tensors moved")),
    h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Tensors that moved" }, h("table", { class: "map" },
      h("thead", {}, h("tr", {}, ["Tensor", "Shape", `Bucket in ${a}`, `Bucket in ${b}`].map((text) => h("th", { scope: "col" }, text)))),
      h("tbody", {}, moves.slice(0, MOVES_SHOWN).map((move) => h("tr", {},
        h("td", {}, move.tensor), h("td", {}, move.shape), h("td", {}, move.from[0] + 1), h("td", {}, move.to[0] + 1))))))];
}
