// Splitting attribute texts, and marking where two texts differ.

// A sentence in pieces: own words as strings, all else as [kind, words].
function said(pieces) {
  return pieces.map((piece) => typeof piece === "string" ? piece : h("span", { class: `part ${piece[0]}` }, soft(piece[1])));
}

function inWords(pieces) {
  return pieces.map((piece) => typeof piece === "string" ? piece : piece[1]).join("");
}

// "a={1,2}, b=x" -> [["a", "{1,2}"], ["b", "x"]]; commas inside brackets and quotes stay.
function splitAttributes(text) {
  const items = [];
  let depth = 0, quoted = false, start = 0;
  for (let k = 0; k <= text.length; k++) {
    const c = text[k];
    if (quoted) {
      if (c === "\\") k++;
      else if (c === '"') quoted = false;
      if (k < text.length) continue;
    }
    if (c === '"') quoted = true;
    else if (c === "{" || c === "[" || c === "(") depth++;
    else if (c === "}" || c === "]" || c === ")") depth--;
    else if (c === undefined || (c === "," && depth === 0)) {
      const item = text.slice(start, k).trim();
      if (item) {
        const cut = item.indexOf("=");
        items.push(cut < 0 ? [item, ""] : [item.slice(0, cut), item.slice(cut + 1)]);
      }
      start = k + 1;
    }
  }
  return items;
}

const TOKEN = /[A-Za-z_]+|\d+|[^]/g;
const LONG = 400; // tokens; longer texts are marked between their common ends only

// Two texts as [[text, differs], ...] each.
function differingParts(a, b) {
  if (a === b) return [[[a, false]], [[b, false]]];
  const x = a.match(TOKEN) || [], y = b.match(TOKEN) || [];
  let head = 0;
  while (head < x.length && head < y.length && x[head] === y[head]) head++;
  let tail = 0;
  while (tail < x.length - head && tail < y.length - head && x[x.length - 1 - tail] === y[y.length - 1 - tail]) tail++;
  const keep = commonTokens(x.slice(head, x.length - tail), y.slice(head, y.length - tail));
  return [parts(x, head, tail, keep[0]), parts(y, head, tail, keep[1])];
}

// The tokens of a longest common subsequence, as two sets of positions.
function commonTokens(x, y) {
  const inX = new Set(), inY = new Set();
  if (x.length > LONG || y.length > LONG) return [inX, inY];
  const best = Array.from({ length: x.length + 1 }, () => new Uint16Array(y.length + 1));
  for (let i = x.length - 1; i >= 0; i--) {
    for (let j = y.length - 1; j >= 0; j--) {
      best[i][j] = x[i] === y[j] ? best[i + 1][j + 1] + 1 : Math.max(best[i + 1][j], best[i][j + 1]);
    }
  }
  for (let i = 0, j = 0; i < x.length && j < y.length; ) {
    if (x[i] === y[j]) { inX.add(i++); inY.add(j++); }
    else if (best[i + 1][j] >= best[i][j + 1]) i++;
    else j++;
  }
  return [inX, inY];
}

function parts(tokens, head, tail, keep) {
  const out = [];
  const end = tokens.length - tail;
  tokens.forEach((token, k) => {
    const differs = k >= head && k < end && !keep.has(k - head);
    if (out.length && out[out.length - 1][1] === differs) out[out.length - 1][0] += token;
    else out.push([token, differs]);
  });
  return out;
}

function marked(list) {
  return list.map(([text, differs]) => (differs ? h("mark", {}, text) : text));
}

// A text that may break behind commas, closing braces, slashes and dots between words, never inside a number.
function soft(text) {
  const pieces = text.split(/(?<=[,/)}_=]|[a-z]\.|\.(?=[A-Za-z]))/);
  return pieces.flatMap((piece, k) => (k ? [h("wbr"), piece] : [piece]));
}

function cut(text, length) {
  return text.length > length ? text.slice(0, length) + "…" : text;
}
