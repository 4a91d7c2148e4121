// Building elements. Text goes in as text nodes only: nothing of a module is ever parsed as HTML.

const SVG = "http://www.w3.org/2000/svg";

function fill(element, attributes, children) {
  for (const [key, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else element.setAttribute(key, value === true ? "" : value);
  }
  for (const child of children.flat()) {
    if (child !== null && child !== undefined && child !== "") element.append(child);
  }
  return element;
}

function h(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

function svg(tag, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

function byId(id) {
  return document.getElementById(id);
}

function announce(text) {
  byId("live").textContent = text;
}

function plural(n, one, many = one + "s") {
  return `${n.toLocaleString("en")} ${n === 1 ? one : many}`;
}

// As xlagraph/figures.py says it.
function duration(ms) {
  const seconds = ms / 1000;
  if (seconds >= 3599.5) return `${(seconds / 3600).toFixed(1)} h`;
  const whole = Math.round(seconds);
  if (seconds >= 59.95) return `${Math.floor(whole / 60)} min ${whole % 60} s`;
  if (seconds >= 0.995) return `${seconds.toFixed(1)} s`;
  if (seconds >= 0.0995) return `${seconds.toFixed(2)} s`;
  return ms ? `${Math.round(ms)} ms` : "0 s";
}
