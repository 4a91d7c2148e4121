// Painting a timeline: the bars above, a row, the axis.

// Bars of the time lost, and behind them, paler, of all compiles.
function paintCosts(pen, view, ink) {
  const { costs, cell } = view;
  for (const [values, colour] of [[costs.all, ink.dim], [costs.lost, ink.bad]]) {
    pen.fillStyle = colour;
    eachColumn(pen, view, (column, width, end) => {
      let most = 0;
      for (let k = column; k < end; k++) most = Math.max(most, values[k]);
      const height = (most / costs.top) * (BARS - 8);
      if (most) pen.fillRect(view.x(column), BARS - Math.max(1.5, height), width, Math.max(1.5, height));
    });
  }
  pen.fillStyle = ink.line;
  pen.fillRect(LABEL_WIDTH, BARS, Math.min(view.width - LABEL_WIDTH, view.span.width * cell), 1);
  pen.fillStyle = ink.dim;
  pen.fillText(duration(costs.top), 0, 14);
}

// Columns in view, or pixels where those are wider: first column, width, end.
function eachColumn(pen, view, paint) {
  const { span, cell } = view;
  const by = Math.max(1, Math.ceil(1 / cell));
  const first = Math.floor(span.left / by) * by, stop = Math.min(span.total, Math.ceil(span.left + span.width));
  pen.save();
  pen.beginPath();
  pen.rect(LABEL_WIDTH, 0, view.width - LABEL_WIDTH, view.height);
  pen.clip();
  for (let column = first; column < stop; column += by) {
    paint(column, Math.max(1, cell * by - (cell > 5 ? 1 : 0)), Math.min(stop, column + by));
  }
  pen.restore();
}

function paintRank(pen, view, ink, rank, r) {
  const { line, cell } = view;
  pen.fillStyle = ink.dim;
  const every = Math.ceil(14 / line);
  if (r % every === 0) pen.fillText(fitted(pen, rank.label, LABEL_WIDTH - 8), 0, view.y(r) + line / 2);
  const thin = Math.max(2, Math.round(line / 5));
  eachColumn(pen, view, (column, width, end) => {
    let k = -1;
    for (let c = column; c < end; c++) if (rank.at[c] >= 0 && (k < 0 || COMPILED.includes(rank.outcomes[rank.at[c]]))) k = rank.at[c];
    if (k < 0 || rank.outcomes[k] === "e") return;
    const compiled = COMPILED.includes(rank.outcomes[k]);
    const height = compiled ? line - 2 : thin;
    pen.fillStyle = rank.graphs[k] < 0 ? ink.dim : FILLS[rank.graphs[k] % FILLS.length];
    pen.fillRect(view.x(column), view.y(r) + (line - height) / 2, width, height);
    if (compiled && cell >= 14 && line >= 14 && rank.graphs[k] >= 0) {
      pen.fillStyle = "#fff";
      pen.textAlign = "center";
      pen.fillText(view.time.letters[rank.graphs[k]], view.x(column) + cell / 2, view.y(r) + line / 2 + 0.5);
      pen.textAlign = "left";
    }
  });
}

function paintAxis(pen, view, ink) {
  const { time, cell, height } = view;
  const every = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 5000].find((n) => n * cell >= 44) ?? 10000;
  pen.fillStyle = ink.dim;
  pen.fillText("step", 0, height - AXIS / 2);
  pen.textAlign = "center";
  const stop = Math.min(view.span.total, view.span.left + view.span.width);
  if (cell >= 4) joinColumns(pen, view, Math.max(0, Math.floor(view.span.left)), stop);
  for (let column = Math.max(0, Math.floor(view.span.left)); column < stop; column++) {
    const step = time.columns[column];
    if (step % every === 0 && time.columns[column - 1] !== step) pen.fillText(step, view.x(column) + cell / 2, height - AXIS / 2);
  }
  pen.textAlign = "left";
}

// A line below the columns of each step that has several.
function joinColumns(pen, view, start, stop) {
  const { columns } = view.time;
  for (let first = start, next; first < stop; first = next) {
    for (next = first + 1; columns[next] === columns[first];) next++;
    const left = Math.max(view.x(first), LABEL_WIDTH);
    if (next > first + 1) pen.fillRect(left, view.height - AXIS + 1, view.x(next) - 1 - left, 1);
  }
}

// A label as far as it fits.
function fitted(pen, text, width) {
  if (pen.measureText(text).width <= width) return text;
  let length = text.length;
  while (length > 1 && pen.measureText(text.slice(0, length) + "…").width > width) length--;
  return text.slice(0, length) + "…";
}
