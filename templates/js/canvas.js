// What all canvases share: their size on this screen, and the colours of the theme.

const FILLS = ["#2563a8", "#b04a12", "#1c7443", "#8a3fa0", "#a8325e", "#0e6f7b", "#755800", "#5457b8", "#8f3d0d", "#4b5563"];

// A canvas of the size that it is shown in, cleared; and the colours of the theme.
function sheet(canvas, width, height) {
  const ratio = window.devicePixelRatio || 1;
  if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    canvas.style.height = `${height}px`;
  }
  const pen = canvas.getContext("2d");
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  pen.clearRect(0, 0, width, height);
  return pen;
}

// Canvases do not know light-dark(): the browser is asked what each variable comes to.
function inks(element) {
  const names = ["bg", "lane", "line", "text", "dim", "bad", "focus", "known", "mark", "accent", "mod-ink", "del-ink", "add-ink"];
  const probes = names.map((name) => h("span", { hidden: true, style: `color: var(--${name})` }));
  element.append(...probes);
  const found = Object.fromEntries(names.map((name, k) => [name, getComputedStyle(probes[k]).color]));
  for (const probe of probes) probe.remove();
  return found;
}
