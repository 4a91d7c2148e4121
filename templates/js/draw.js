// Painting the part of the picture that is in view. What falls on one pixel is painted once, so that
// the work is bounded by the size of the picture, not of the log.

const HEAD = 24, LANE = 34, BLOCK = 20, FAR = 2;

function laneY(lane) { return HEAD + lane * LANE + LANE / 2; }

// What `view` shows: the lanes, the place at its left edge, pixels a column, what is chosen.
function paint(pen, view, ink) {
  const { lanes, width, left, scale } = view;
  const x = (place) => (place - left) * scale;
  const from = Math.floor(left), to = Math.ceil(left + width / scale);
  paintLanes(pen, view, ink, x);
  paintArrows(pen, view, ink, x, from, to);
  for (let lane = 0; lane < lanes.streams.length; lane++) paintBlocks(pen, view, ink, x, lane, from, to);
  if (view.column >= 0) paintOwnArrows(pen, view, ink, x);
  if (view.finding) paintFinding(pen, view, ink, x, view.finding);
  if (view.column >= 0) {
    pen.strokeStyle = ink.focus;
    pen.lineWidth = 2;
    pen.strokeRect(x(view.column), laneY(lanes.stream[view.column]) - BLOCK / 2 - 2, Math.max(scale, 3), BLOCK + 4);
  }
}

function paintLanes(pen, view, ink, x) {
  const { lanes, width, scale, finding } = view;
  pen.fillStyle = ink.lane;
  for (let lane = 0; lane < lanes.streams.length; lane += 2) pen.fillRect(0, HEAD + lane * LANE, width, LANE);
  if (finding?.known) {
    pen.fillStyle = ink.known;
    finding.known.forEach((place, lane) => pen.fillRect(0, HEAD + lane * LANE + 1, Math.max(0, x(place)), LANE - 2));
  }
  pen.font = "11px system-ui, sans-serif";
  pen.textBaseline = "middle";
  paintPasses(pen, view, ink, x);
  paintMarks(pen, lanes.data.steps, width, ink.dim, x, lanes, (number) => `step ${number}`);
  pen.setLineDash([3, 3]);
  paintMarks(pen, lanes.data.gaps, width, ink.bad, x, lanes, (count) => `${count.toLocaleString("en")} left out`);
  pen.setLineDash([]);
  if (scale >= 1) paintHostWaits(pen, lanes, width, ink, x);
}

// A bar above the lanes for each backward pass.
function paintPasses(pen, { lanes, width }, ink, x) {
  pen.fillStyle = ink.line;
  for (const [begin, end] of lanes.data.backwards) {
    const from = Math.max(0, x(begin)), to = Math.min(width, x(end));
    if (to >= from) pen.fillRect(from, HEAD - 7, Math.max(1, to - from), 4);
  }
}

// Lines through all lanes, with words where there is room for them.
function paintMarks(pen, marks, width, colour, x, lanes, say) {
  const bottom = HEAD + lanes.streams.length * LANE;
  let free = -Infinity;
  for (const [place, what] of marks) {
    const at = x(place);
    if (at < 0 || at > width || at < free) continue;
    const words = say(what);
    line(pen, colour, at, 0, at, bottom);
    pen.fillStyle = colour;
    pen.fillText(words, at + 4, 8);
    free = at + 12 + pen.measureText(words).width;
  }
}

// Dotted through all lanes where the host waits for the device, solid through one for a stream.
function paintHostWaits(pen, lanes, width, ink, x) {
  const bottom = HEAD + lanes.streams.length * LANE;
  let last = -9;
  pen.fillStyle = ink.dim;
  for (const [place, lane] of lanes.data.hosts) {
    const at = Math.round(x(place));
    if (at < 0 || at > width || at === last) continue;
    last = at;
    if (lane < 0) for (let y = HEAD; y < bottom; y += 6) pen.fillRect(at, y, 1, 2);
    else pen.fillRect(at, HEAD + lane * LANE + 3, 1, LANE - 6);
  }
}

function paintBlocks(pen, view, ink, x, lane, from, to) {
  const { lanes, scale, matches } = view, list = lanes.ofLane[lane];
  const y = laneY(lane) - BLOCK / 2, wide = scale >= 4 ? scale - 1 : Math.max(scale, 1);
  const fill = FILLS[lane % FILLS.length];
  let k = lanes.firstFrom(lane, from), pixel = -2, marked = false;
  pen.font = "11px ui-monospace, monospace";
  for (; k < list.length && list[k] <= to; k++) {
    const column = list[k], at = x(column), isMatch = !matches || matches[column] === 1;
    if (scale < 1 && Math.floor(at) === pixel && (marked || !isMatch)) continue;
    pixel = Math.floor(at);
    marked = isMatch;
    pen.globalAlpha = isMatch ? 1 : 0.22;
    pen.fillStyle = fill;
    pen.fillRect(scale < 1 ? pixel : at, y, wide, BLOCK);
    if (scale >= 46) {
      pen.fillStyle = "#fff";
      pen.fillText(fitting(lanes.text("operator", column), scale - 9), at + 4, y + BLOCK / 2 + 1);
    }
  }
  pen.globalAlpha = 1;
}

// The end of a name tells more than its beginning: aten.copy_ as copy_.
function fitting(name, width) {
  const letters = Math.floor(width / 6.7);
  if (name.length <= letters) return name;
  const short = name.slice(name.lastIndexOf(".") + 1);
  return short.length <= letters ? short : letters > 2 ? short.slice(0, letters - 1) + "…" : "";
}

// Far away one path has all arrows: a stroke for each would take longer than a frame.
function paintArrows(pen, view, ink, x, from, to) {
  const { lanes, scale } = view, { sources, targets } = lanes.data, hasHead = scale >= 2;
  const seen = new Set(), count = lanes.streams.length + 1, path = new Path2D();
  pen.globalAlpha = scale < 1 ? 0.35 : 0.75;
  for (let arrow = lanes.firstEnd(from); arrow < lanes.ends.length; arrow++) {
    const end = lanes.ends[arrow], begin = lanes.begin(arrow);
    if (begin > to + 1) continue;
    if (scale < 4) {
      const key = (Math.floor(x(end) / FAR) * count + sources[arrow] + 1) * count + targets[arrow];
      if (seen.has(key)) continue;
      seen.add(key);
    }
    if (hasHead) paintArrow(pen, lanes, arrow, ink.dim, x, true);
    else {
      path.moveTo(x(begin), tailOf(sources[arrow], targets[arrow]));
      path.lineTo(x(end), edgeOf(targets[arrow], sources[arrow]));
    }
  }
  pen.strokeStyle = ink.dim;
  pen.lineWidth = 1;
  pen.stroke(path);
  pen.globalAlpha = 1;
}

// What the chosen operator waited for, above everything.
function paintOwnArrows(pen, { lanes, column }, ink, x) {
  for (const arrow of lanes.waitsOf(column)) paintArrow(pen, lanes, arrow, ink.accent, x, true, 2);
}

// An event that the log does not have comes from above.
function paintArrow(pen, lanes, arrow, colour, x, hasHead, thick = 1) {
  const source = lanes.data.sources[arrow], target = lanes.data.targets[arrow];
  if (source < 0) pen.setLineDash([2, 3]);
  arrowLine(pen, colour, x(lanes.begin(arrow)), tailOf(source, target), x(lanes.ends[arrow]), edgeOf(target, source), hasHead, thick);
  pen.setLineDash([]);
}

function tailOf(source, target) { return source < 0 ? HEAD - 4 : edgeOf(source, target); }

// Where a line to another lane leaves a lane's blocks: below or above them.
function edgeOf(lane, other) { return laneY(lane) + (other > lane ? BLOCK / 2 : -BLOCK / 2); }

function paintFinding(pen, view, ink, x, finding) {
  const { lanes, scale } = view;
  for (const mark of [finding.freed, finding.taken, finding.backward]) {
    if (mark) diamond(pen, ink.bad, x(mark[1]), laneY(mark[0]));
  }
  pen.lineWidth = 2;
  pen.strokeStyle = ink.bad;
  for (const column of [...finding.earlier, finding.later]) {
    if (column < 0 || column >= lanes.length) continue;
    pen.strokeRect(x(column) - 1, laneY(lanes.stream[column]) - BLOCK / 2 - 1, Math.max(scale, 3) + 1, BLOCK + 2);
  }
  pen.setLineDash([6, 4]);
  for (const line of missingLines(view, finding)) {
    arrowLine(pen, ink.bad, x(line.from), edgeOf(line.source, line.target), x(line.to), edgeOf(line.target, line.source), true, 2);
  }
  pen.setLineDash([]);
}

// The edges that are missing, as lines between lanes; from the end of an operator.
function missingLines({ lanes }, finding) {
  return finding.edges.map(([source, column, target, to, text]) => (
    { source, target, from: column < 0 ? finding.known?.[source] ?? 0 : Math.min(column + 1, to), to, text, isMemory: text.startsWith("record") }
  )).filter((line) => line.source >= 0 && line.source < lanes.streams.length && line.source !== line.target);
}

function line(pen, colour, x1, y1, x2, y2) {
  pen.strokeStyle = colour;
  pen.beginPath();
  pen.moveTo(x1, y1);
  pen.lineTo(x2, y2);
  pen.stroke();
}

function arrowLine(pen, colour, x1, y1, x2, y2, hasHead, thick = 1) {
  pen.lineWidth = thick;
  line(pen, colour, x1, y1, x2, y2);
  if (!hasHead) return;
  const size = 4 + thick, angle = Math.atan2(y2 - y1, x2 - x1);
  pen.fillStyle = colour;
  pen.beginPath();
  pen.moveTo(x2, y2);
  for (const side of [-0.45, 0.45]) pen.lineTo(x2 - size * Math.cos(angle + side), y2 - size * Math.sin(angle + side));
  pen.fill();
}

function diamond(pen, colour, x, y) {
  pen.fillStyle = colour;
  pen.beginPath();
  for (const [dx, dy] of [[0, -6], [5, 0], [0, 6], [-5, 0]]) pen.lineTo(x + dx, y + dy);
  pen.fill();
}

// The whole log, as dense as it is: painted once for each width.
function overview(lanes, width, height) {
  const canvas = document.createElement("canvas"), pen = sheet(canvas, width, height);
  const scale = width / Math.max(lanes.length, 1), row = (height - 8) / lanes.streams.length;
  lanes.ofLane.forEach((list, lane) => {
    pen.fillStyle = FILLS[lane % FILLS.length];
    let pixel = -1;
    for (const column of list) {
      const at = Math.floor(column * scale);
      if (at === pixel) continue;
      pixel = at;
      pen.fillRect(at, 4 + lane * row, Math.max(1, scale - 0.5), Math.max(1, row - 1));
    }
  });
  return canvas;
}

// The whole log with findings as ticks, and a frame around the columns that are in view.
function paintWhole(pen, view, ink, width, height) {
  const { lanes } = view, scale = width / Math.max(lanes.length, 1);
  pen.drawImage(view.overview, 0, 0, width, height);
  pen.fillStyle = ink.bad;
  for (const one of lanes.findings) pen.fillRect(Math.round((one.later < 0 ? one.earlier[0] : one.later) * scale) - 1, 0, 2, height);
  pen.strokeStyle = ink.focus;
  pen.lineWidth = 2;
  pen.strokeRect(view.left * scale + 1, 1, Math.max(3, view.inView * scale) - 2, height - 2);
}
