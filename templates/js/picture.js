// A small drawing of what is around an instruction: operands above, users below.

const NODE_WIDTH = 118, NODE_HEIGHT = 34, GAP_X = 8, GAP_Y = 26, PER_LEVEL = 3;

function picture(pair, side, i) {
  const module = pair.modules[side];
  const few = (list) => someOf(list, (o) => pair.differs(pair.rowOf[side][o]));
  const above = few(module.operands(i)), below = few(module.users(i));
  const higher = few(above.shown.flatMap((o) => module.operands(o)).filter((o) => !above.shown.includes(o)));
  const levels = [higher, above, { shown: [i], more: 0 }, below].filter((level) => level.shown.length);
  const width = PER_LEVEL * (NODE_WIDTH + GAP_X) + 46;
  const places = new Map();
  const nodes = [], notes = [];
  levels.forEach((level, y) => {
    const count = level.shown.length;
    const left = (width - 46 - count * (NODE_WIDTH + GAP_X) + GAP_X) / 2;
    level.shown.forEach((o, x) => {
      const at = { x: left + x * (NODE_WIDTH + GAP_X), y: y * (NODE_HEIGHT + GAP_Y) + 2 };
      places.set(o, at);
      nodes.push(node(pair, side, o, at, o === i));
    });
    if (level.more) notes.push(svg("text", { x: left + count * (NODE_WIDTH + GAP_X), y: y * (NODE_HEIGHT + GAP_Y) + 22 }, `+${level.more}`));
  });
  const height = levels.length * (NODE_HEIGHT + GAP_Y) - GAP_Y + 4;
  const edges = [...places.keys()].flatMap((user) => [...new Set(module.operands(user))]
    .filter((o) => places.has(o)).map((o) => edge(places.get(o), places.get(user))));
  const label = `${module.name(i)} with ${plural(module.operands(i).length, "operand")} above and ${plural(module.users(i).length, "user")} below`;
  return svg("svg", { class: "picture", viewBox: `0 0 ${width} ${height}`, role: "group", "aria-label": cut(label, 200) }, arrow(), edges, nodes, notes);
}

// The first of a list, those before that differ.
function someOf(list, differs) {
  const all = [...new Set(list)];
  const distinct = all.length > PER_LEVEL ? [...all.filter(differs), ...all.filter((o) => !differs(o))] : all;
  return { shown: distinct.slice(0, PER_LEVEL), more: Math.max(0, distinct.length - PER_LEVEL) };
}

function node(pair, side, i, at, self) {
  const module = pair.modules[side];
  const status = STATUS[pair.status[pair.rowOf[side][i]]];
  const box = svg("g", { class: `${status}${self ? " self" : ""}` },
    svg("rect", { x: at.x, y: at.y, width: NODE_WIDTH, height: NODE_HEIGHT, rx: 4 }),
    svg("text", { x: at.x + 6, y: at.y + 14 }, cut(module.opcode(i), 15)),
    svg("text", { x: at.x + 6, y: at.y + 28 }, cut(module.shape(i).replace(/\{[^}]*\}/g, ""), 15)),
    svg("title", {}, cut(module.name(i), 200)));
  return svg("a", { href: address(pair, "i", side + i) }, box);
}

function edge(from, to) {
  const x1 = from.x + NODE_WIDTH / 2, y1 = from.y + NODE_HEIGHT, x2 = to.x + NODE_WIDTH / 2, y2 = to.y;
  const middle = (y1 + y2) / 2;
  return svg("path", { d: `M${x1},${y1} C${x1},${middle} ${x2},${middle} ${x2},${y2 - 5}`, "marker-end": "url(#arrow)" });
}

function arrow() {
  return svg("marker", { id: "arrow", viewBox: "0 0 6 6", refX: 3, refY: 3, markerWidth: 6, markerHeight: 6, orient: "auto" }, svg("path", { d: "M0,0 L6,3 L0,6 z" }));
}
