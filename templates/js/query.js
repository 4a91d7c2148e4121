// Searching rows: words and /regular expressions/, all of which must fit one instruction of the row.

const TERM = /(?:(op|shape|name|src):)?(?:\/((?:\\.|[^\/])+)\/(?=\s|$)|(\S+))/g;

// Terms of a query, each a field ("" for all) and a test; null for an expression that is none.
function parseQuery(text) {
  return [...text.matchAll(TERM)].map(([, field = "", pattern, word]) => {
    if (pattern === undefined) return { field, test: wordTest(field, word) };
    try {
      const expression = new RegExp(pattern, "iu");
      return { field, test: (value) => expression.test(value) };
    } catch {
      return { field, test: () => false, wrong: pattern };
    }
  });
}

function wordTest(field, word) {
  const text = word.toLowerCase().replace(/^%/, "");
  return field === "op" ? (value) => value.toLowerCase() === text : (value) => value.toLowerCase().includes(text);
}

function fitsRow(term, pair, row) {
  return ["a", "b"].some((side) => pair[side][row] >= 0 && fits(term, pair, side, pair[side][row]));
}

function fits({ field, test }, pair, side, i) {
  const module = pair.modules[side];
  if (field === "op") return test(module.opcode(i));
  if (field === "shape") return test(module.shape(i));
  const named = () => test(module.name(i)) || (pair.tensors[side].get(i) ?? []).some(({ name }) => test(name));
  if (field === "name") return named();
  if (field === "src") return fitsSource(module, i, test);
  return named() || test(module.opcode(i)) || test(module.shape(i)) || fitsSource(module, i, test);
}

function fitsSource(module, i, test) {
  const place = module.data.origin[i];
  if (place < 0) return false;
  const [, type, name, frames] = module.data.origins[place];
  return test(type) || test(name) || frames.some(([file, line]) => test(`${module.data.files[file]}:${line}`));
}
