// Comparing any two graphs of the page: which instruction of one is which of the other. What is the
// same expression on both sides is paired, then what stands at the same place below or above a pair.
// No causes are looked for; `xlagraph diff` does that.

const CALLED = /^(to_apply|calls|body|condition|branch_computations|true_computation|false_computation|called_computations)$/;

function pairModules(a, b) {
  const numbers = new Map();
  const sides = { a: numbered(a, numbers), b: numbered(b, numbers) };
  const match = { to: { a: new Int32Array(a.length).fill(-1), b: new Int32Array(b.length).fill(-1) }, sides };
  pairEqual(match, a, b);
  pairBelow(match, a, b);
  pairAbove(match, a, b);
  return match;
}

// What each instruction is but for its operands (label), and with all below it (expression).
function numbered(module, numbers) {
  const number = (key) => {
    if (!numbers.has(key)) numbers.set(key, numbers.size);
    return numbers.get(key);
  };
  const texts = module.data.attributes.map((text) => splitAttributes(text.replace("\0", "").replace(/^[\s,]+|[\s,]+$/g, ""))
    .filter(([key]) => key !== "channel_id" && !CALLED.test(key)).map(([key, value]) => `${key}=${value}`).sort().join());
  const labels = new Int32Array(module.length), expressions = new Int32Array(module.length);
  const entry = module.computations[module.entry];
  for (const computation of module.computations) {
    for (let i = computation.start; i < computation.stop; i++) {
      const isInput = computation === entry && module.opcode(i) === "parameter";
      labels[i] = number(`${module.opcode(i)} ${module.shape(i)} ${isInput ? "" : module.payload(i) ?? ""} ${texts[module.data.attribute[i]]}`);
      const called = module.callees(i).map((c) => expressions[module.computations[c].root]);
      const own = isInput ? `=${module.data.inputs[module.payload(i)] ?? `#${module.payload(i)}`}` : "";
      expressions[i] = number(`${labels[i]}${own}(${module.operands(i).map((o) => expressions[o])})${called}`);
    }
  }
  return { labels, expressions, live: liveOf(module), number };
}

function liveOf(module) {
  const live = new Uint8Array(module.length);
  const queue = [module.computations[module.entry].root];
  while (queue.length) {
    const i = queue.pop();
    if (live[i]) continue;
    live[i] = 1;
    queue.push(...module.operands(i), ...module.callees(i).map((c) => module.computations[c].root));
  }
  return live;
}

function join(match, x, y) {
  match.to.a[x] = y;
  match.to.b[y] = x;
}

function isFree(match, x, y) {
  return match.to.a[x] < 0 && match.to.b[y] < 0;
}

// Equal expressions in the order of the text, those in the entry with those in the entry.
function pairEqual(match, a, b) {
  const key = (module, side, i) => `${match.sides[side].expressions[i]} ${module.computationOf(i) === module.entry}`;
  const waiting = new Map();
  for (let y = b.length - 1; y >= 0; y--) {
    const k = key(b, "b", y);
    if (!waiting.has(k)) waiting.set(k, []);
    waiting.get(k).push(y);
  }
  for (let x = 0; x < a.length; x++) {
    const y = waiting.get(key(a, "a", x))?.pop();
    if (y !== undefined) join(match, x, y);
  }
}

// From the roots down: operands at the same place, and what is called at the same place.
function pairBelow(match, a, b) {
  const roots = [a.computations[a.entry].root, b.computations[b.entry].root];
  if (isFree(match, ...roots)) join(match, ...roots);
  const descend = (x, y) => {
    const p = a.operands(x), q = b.operands(y), called = b.callees(y);
    if (p.length === q.length || a.opcode(x) === "tuple") p.forEach((o, k) => k < q.length && meet(o, q[k]));
    a.callees(x).forEach((c, k) => k < called.length && meet(a.computations[c].root, b.computations[called[k]].root));
  };
  const meet = (x, y) => { if (isFree(match, x, y) && a.opcode(x) === b.opcode(y)) { join(match, x, y); queue.push([x, y]); } };
  const queue = [];
  for (let x = a.length - 1; x >= 0; x--) {
    if (match.to.a[x] < 0) continue;
    queue.push([x, match.to.a[x]]);
    while (queue.length) descend(...queue.pop());
  }
}

// From operands up: an instruction whose operands are paired, with the only free one like it there.
function pairAbove(match, a, b) {
  for (let x = 0; x < a.length; x++) {
    if (match.to.a[x] >= 0) continue;
    const below = a.operands(x).map((o) => match.to.a[o]);
    const known = below.find((y) => y >= 0);
    if (known === undefined) continue;
    const fits = b.users(known).filter((y) => match.to.b[y] < 0 && b.opcode(y) === a.opcode(x) && b.operands(y).length === below.length);
    if (fits.length === 1) join(match, x, fits[0]);
  }
}
