// A bar between the list and the panel: dragged, or moved by the arrow keys.

const PANEL_LEAST = 260, PANEL_STEP = 40;

function splitter(split) {
  const most = () => Math.max(PANEL_LEAST, split.clientWidth - 360);
  const width = () => split.querySelector(".detail").getBoundingClientRect().width;
  const bar = h("div", { class: "bar-between", role: "separator", tabindex: "0", "aria-orientation": "vertical", "aria-label": "Width of the details", "aria-valuenow": "400", "aria-valuemin": PANEL_LEAST, "aria-valuemax": "2000" });
  const set = (wanted) => {
    const to = Math.round(Math.max(PANEL_LEAST, Math.min(most(), wanted)));
    split.style.setProperty("--panel", `${to}px`);
    bar.setAttribute("aria-valuenow", to);
  };
  bar.addEventListener("pointerdown", (event) => { bar.setPointerCapture(event.pointerId); event.preventDefault(); });
  bar.addEventListener("pointermove", (event) => {
    if (bar.hasPointerCapture(event.pointerId)) set(split.getBoundingClientRect().right - event.clientX);
  });
  bar.addEventListener("keydown", (event) => {
    const by = { ArrowLeft: PANEL_STEP, ArrowRight: -PANEL_STEP }[event.key];
    if (!by) return;
    event.preventDefault();
    set(width() + by);
  });
  return bar;
}
