// Tables that arrow keys walk through: one stop of the Tab key each, and a line that tells of the cell in focus.

/** Lets arrow keys, Home and End move between the cells of a table. */
function walkable(table) {
  const cells = (row) => [...row.cells];
  const enter = (cell) => {
    table.querySelector("[data-entry]")?.removeAttribute("data-entry");
    for (const old of table.querySelectorAll('td[tabindex="0"]')) old.tabIndex = -1;
    cell.tabIndex = 0;
    cell.focus();
  };
  const step = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0], Home: [0, -1e4], End: [0, 1e4] };
  table.addEventListener("keydown", (event) => {
    const cell = event.target.closest("td,tbody th");
    if (!cell || !(event.key in step)) return;
    const rows = [...table.tBodies].flatMap((body) => [...body.rows]);
    const [down, right] = step[event.key];
    const row = rows[Math.min(Math.max(rows.indexOf(cell.parentNode) + down, 0), rows.length - 1)];
    const inRow = cells(row).filter((each) => each.tagName === "TD");
    const place = cells(cell.parentNode).filter((each) => each.tagName === "TD").indexOf(cell);
    event.preventDefault();
    if (inRow.length) enter(inRow[Math.min(Math.max(place + right, 0), inRow.length - 1)]);
  });
}

/** Makes the first cell of a table the one that the Tab key reaches. */
function reachable(table) {
  for (const cell of table.querySelectorAll("tbody td")) cell.tabIndex = -1;
  const first = table.querySelector("tbody td");
  if (first) first.tabIndex = 0;
}

/** Lets the heads of a plain table sort its lines: up, down, as they were. */
function sortable(table) {
  const lines = [...table.tBodies[0].rows];
  const heads = [...table.tHead.rows[0].cells];
  const state = { column: null, falling: false };
  const sort = (column) => {
    if (state.column !== column) Object.assign(state, { column, falling: false });
    else if (!state.falling) state.falling = true;
    else state.column = null;
    table.tBodies[0].append(...(state.column === null ? lines : sortedBy(lines, column, state.falling)));
    heads.forEach((head, i) => markSorted(head, i === state.column ? state.falling : null));
  };
  heads.forEach((head, i) => {
    const arrow = h("span", { class: "arrow", "aria-hidden": "true" });
    head.replaceChildren(h("button", { type: "button", click: () => sort(i) }, head.textContent, arrow));
  });
  return table;
}

function markSorted(head, falling) {
  if (falling === null) head.removeAttribute("aria-sort");
  else head.setAttribute("aria-sort", falling ? "descending" : "ascending");
  head.querySelector(".arrow").textContent = falling === null ? "" : falling ? " ↓" : " ↑";
}

/** Lines of a plain table by what a column says; what is unknown last, whichever way. */
function sortedBy(lines, column, falling) {
  const said = (line) => line.cells[column].textContent;
  const unknown = lines.filter((line) => said(line) === "–");
  const known = lines.filter((line) => said(line) !== "–");
  known.sort((a, b) => (falling ? -1 : 1) * inOrder(said(a), said(b)));
  return [...known, ...unknown];
}

/** Order of two texts or numbers: numbers by size, also where texts write them. */
function inOrder(a, b) {
  if (a !== "" && b !== "" && Number.isFinite(Number(a)) && Number.isFinite(Number(b))) return a - b;
  return String(a).localeCompare(String(b), "en", { numeric: true });
}

/** A cell that scrolls with its table: a region that the keyboard can scroll. */
function scrollable(label, ...children) {
  return h("div", { class: "scroll", role: "region", "aria-label": label, tabindex: "0" }, ...children);
}

/** Mark and name of an evidence; the name alone for screen readers. */
function evidenceMark(app, evidence, { named = false } = {}) {
  const { mark, means } = app.data.evidence[evidence];
  return [
    h("span", { class: `mark ${evidence}`, "aria-hidden": "true", title: `${evidence}: ${means}` }, mark),
    h("span", { class: named ? "" : "hidden" }, ` ${evidence}`),
  ];
}

/** A dash that tells why on hover and in focus. */
function dash(reason) {
  return h("span", { class: "dash", "data-why": reason }, h("span", { "aria-hidden": "true" }, "–"),
    h("span", { class: "hidden" }, `unknown: ${reason}`));
}

/** Shows the reason of a dash, or of what has one, beside it while the pointer or the focus is on it. */
function tellReasons() {
  const tip = h("div", { class: "tip", role: "tooltip", hidden: true });
  document.body.append(tip);
  const show = (target) => {
    const told = target.closest?.("[data-why]") ?? target.querySelector?.(":scope > [data-why]");
    tip.hidden = !told;
    if (!told) return;
    tip.textContent = told.dataset.why;
    const box = told.getBoundingClientRect();
    const left = Math.min(Math.max(box.left, 8), innerWidth - tip.offsetWidth - 8);
    const below = box.bottom + 6 + tip.offsetHeight < innerHeight;
    tip.style.left = `${left}px`;
    tip.style.top = `${below ? box.bottom + 6 : box.top - tip.offsetHeight - 6}px`;
  };
  document.addEventListener("pointerover", (event) => show(event.target));
  document.addEventListener("focusin", (event) => show(event.target));
  document.addEventListener("keydown", (event) => { if (event.key === "Escape") tip.hidden = true; });
  addEventListener("scroll", () => { tip.hidden = true; }, { capture: true, passive: true });
}
