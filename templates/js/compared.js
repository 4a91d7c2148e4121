// From the pairing of two graphs to the data of a pair view, as the report would have packed it.

function comparedData(id, labels, a, b) {
  const match = pairModules(a, b);
  const changes = changesOf(match, a, b);
  const lone = (side, module) => [...match.to[side].keys()].filter((i) => match.to[side][i] < 0 && match.sides[side].live[i]);
  const dead = (side) => [...match.sides[side].live.keys()].filter((i) => !match.sides[side].live[i]);
  const removed = lone("a"), added = lone("b");
  const total = changes.length + removed.length + added.length;
  const parameters = slotsOf(match, inputsOf(a), inputsOf(b), a.data.inputs, b.data.inputs);
  const outputs = slotsOf(match, outputsOf(a), outputsOf(b), a.data.outputs, b.data.outputs);
  const moved = [...parameters, ...outputs].filter((slot) => slotState(slot) !== "same").length;
  const what = [total ? `${plural(total, "instruction")} ${total === 1 ? "differs" : "differ"}` : "No instruction differs", moved ? `; ${plural(moved, "input or output", "inputs and outputs")} not at the same place.` : "."];
  return {
    id, labels, title: labels.join(" → "), modules: labels, proved: false, same: total + moved === 0,
    verdict: { what, where: [], fix: [],
      notes: [["Compared in this page, without looking for causes. ", ["code", `xlagraph diff RUN:${labels[0]} RUN:${labels[1]}`], " explains the difference."]] },
    sections: sectionsOf(match, a, b), passes: new Array(a.length).fill(0), meanings: ["are the same expression, or stand at the same place beside a pair"],
    changes, follows: [], origins: [], removed: delta(removed), added: delta(added), deadA: delta(dead("a")), deadB: delta(dead("b")),
    causes: [], unexplainedA: [], unexplainedB: [],
    parameters, outputs, header: [], key: [], noise: [], bucketsA: [], bucketsB: [],
  };
}

function delta(numbers) {
  return numbers.map((number, k) => number - (k ? numbers[k - 1] : 0));
}

function changesOf(match, a, b) {
  const { a: sideA, b: sideB } = match.sides;
  const root = a.computations[a.entry].root;
  const changes = [];
  match.to.a.forEach((y, x) => {
    if (y < 0 || !sideA.live[x] || (x === root && a.opcode(x) === "tuple")) return;
    const fields = [];
    if (a.opcode(x) !== b.opcode(y)) fields.push("opcode");
    if (a.shape(x) !== b.shape(y)) fields.push("shape");
    if (a.opcode(x) !== "parameter" && a.payload(x) !== b.payload(y)) fields.push("payload");
    if (sideA.labels[x] !== sideB.labels[y] && !fields.length) fields.push("attributes");
    const p = a.operands(x), q = b.operands(y);
    const places = [...Array(Math.max(p.length, q.length)).keys()].filter((k) => k >= p.length || k >= q.length
      || (match.to.a[p[k]] !== q[k] && sideA.expressions[p[k]] !== sideB.expressions[q[k]]));
    if (places.length) fields.push("operands");
    if (fields.length) changes.push([x, y, fields, places]);
  });
  return changes;
}

// Every computation once: the entry, then A's, then what only B has; B's own rows after the row before them.
function sectionsOf(match, a, b) {
  const partner = new Map([[a.entry, b.entry]]);
  match.to.a.forEach((y, x) => {
    const c = a.computationOf(x), d = y < 0 ? -1 : b.computationOf(y);
    if (d >= 0 && !partner.has(c) && ![...partner.values()].includes(d)) partner.set(c, d);
  });
  const taken = new Set(partner.values());
  const others = [...a.computations.keys()].filter((c) => c !== a.entry);
  return [a.entry, ...others].map((c) => section(match, a, b, c, partner.get(c) ?? -1))
    .concat([...b.computations.keys()].filter((d) => !taken.has(d)).map((d) => section(match, a, b, -1, d)));
}

function section(match, a, b, c, d) {
  const rowsA = [], rowsB = [];
  const put = (x, y) => { rowsA.push(x); rowsB.push(y); };
  const inside = (module, computation, i) => computation && i >= computation.start && i < computation.stop;
  const ca = a.computations[c], cb = b.computations[d];
  let next = cb ? cb.start : 0;
  const own = () => { while (cb && next < cb.stop && !inside(a, ca, match.to.b[next])) put(-1, next++); };
  own();
  for (let x = ca ? ca.start : 0; ca && x < ca.stop; x++) {
    const y = match.to.a[x];
    put(x, inside(b, cb, y) ? y : -1);
    if (y === next) { next++; own(); }
  }
  const drawn = new Set(rowsB);
  for (let y = cb ? cb.start : 0; cb && y < cb.stop; y++) if (!drawn.has(y)) put(-1, y);
  return [c, d, delta(rowsA), delta(rowsB)];
}

function inputsOf(module) {
  const entry = module.computations[module.entry];
  const inputs = [];
  for (let i = entry.start; i < entry.stop; i++) if (module.opcode(i) === "parameter") inputs[Number(module.payload(i))] = i;
  return inputs;
}

function outputsOf(module) {
  const root = module.computations[module.entry].root;
  return module.opcode(root) === "tuple" ? module.operands(root) : [root];
}

function slotsOf(match, inA, inB, namesA, namesB) {
  const places = new Map();
  inB.forEach((y, k) => { if (!places.has(y)) places.set(y, k); });
  const taken = new Set();
  const rows = inA.map((x, k) => {
    const place = places.get(match.to.a[x]);
    if (place !== undefined) taken.add(place);
    return [k, place ?? null, x, place === undefined ? null : inB[place], namesA[k] ?? namesB[place] ?? "", ""];
  });
  return rows.concat(inB.map((y, k) => [null, k, null, y, namesB[k] ?? "", ""]).filter(([, k]) => !taken.has(k)));
}
