// The views of the page. Each gives its title and its nodes; a view to come needs a line in VIEWS alone.

const KIND_TITLES = {
  roofline: "Roofline",
  speedups: "Speedup against each baseline",
  depth: "Occupancy against registers",
  variants: "Variants by target",
  transfers: "Transfer penalties",
  cascade: "Performance portability",
  distances: "Numeric distance between targets",
};

const kernelAddress = (page) => `#/kernel/${encodeURIComponent(page)}`;

/** A cell of the table of rows. */
function rowCell(app, column, row) {
  const value = app.rows.value(column.name, row);
  if (column.name === "page") return h("a", { href: kernelAddress(value) }, value);
  if (column.name === "target" && app.rawCells.has(row)) return h("a", { href: `#/cell/${row}` }, value);
  if (column.name === "evidence") return h("span", {}, ...evidenceMark(app, value, { named: true }), app.rows.older(row) ? h("span", { "data-why": "of an older source of the cell than its other rows" }, " †") : null);
  if (column.name === "status") return statusCell(app, row);
  if (value === null && column.number) return dash(app.rows.reason(column.name, row));
  if (value === null) return "";
  return column.number ? figure(value) : value;
}

function statusCell(app, row) {
  const standing = app.rows.value("standing", row).replace(" ", "-");
  const cause = app.rows.value("cause", row);
  return h("span", { class: `standing ${standing}`, "data-why": cause }, ...statusWords(app, row), app.rows.expected(row) ? " (expected)" : null);
}

function rowsTable(app, name) {
  return new Table(app, name, app.data.columns.map((column) => column.name).filter((each) => each !== "standing"), (column, row) => rowCell(app, column, row));
}

const overview = {
  title: () => "Overview",
  async show(app, place) {
    const heat = new Heat(app, (row) => app.rows.value("page", row), kernelAddress, "Kernels by target",
      new Map(app.data.kernels.map((each) => [each.page, each.sign])));
    place.append(h("section", {}, h("h2", {}, "Kernels by target"), legend(app), heat.element));
    const cascades = (await app.chunkOf(null)).plots;
    if (cascades.length) place.append(h("section", {}, h("h2", {}, "Performance portability"), app.plots.section("Cascade over targets", cascades)));
    return { filter: (rows) => { heat.rows = rows; } };
  },
};

function legend(app) {
  const used = new Set(app.rows.texts("evidence"));
  return h("ul", { class: "legend", "aria-label": "Evidence" }, ...Object.entries(app.data.evidence).filter(([name]) => used.has(name)).map(([name, { means }]) =>
    h("li", {}, ...evidenceMark(app, name, { named: true }), h("span", { class: "muted" }, ` ${means}`))));
}

const kernel = {
  title: (app, page) => page,
  async show(app, place, page) {
    const known = app.data.kernels.find((each) => each.page === page);
    if (!known) { place.append(h("h2", {}, "No such kernel"), h("p", {}, `No row is of a kernel ${page}.`)); return {}; }
    const chunk = await app.chunkOf(page);
    const heat = new Heat(app, (row) => ["shape", "dtype", "variant"].map((name) => app.rows.value(name, row)).join(" "), () => null, `Operations of ${page} by target`);
    const table = rowsTable(app, `Rows of ${page}`);
    place.append(h("h2", {}, page), verdict(known), findingsOf(app, page, chunk),
      h("section", {}, h("h3", {}, "Operations by target"), legend(app), heat.element),
      h("div", { class: "kinds" }, ...Object.keys(KIND_TITLES).map((kind) => kindSection(app, chunk, kind))),
      h("section", {}, h("h3", {}, "Rows"), table.element, leftOut(chunk)));
    return { filter: (rows) => { const own = rows.filter((row) => app.rows.value("page", row) === page); heat.rows = own; table.rows = own; } };
  },
};

function verdict(known) {
  const where = known.bad.length ? `: ${known.bad.join(", ")}` : "";
  return h("p", { class: "verdict" }, h("span", { class: "sign", "aria-hidden": "true" }, known.sign), ` ${known.carry}${where}`);
}

function findingsOf(app, page, chunk) {
  const own = app.data.findings.map((finding, place) => ({ finding, place })).filter(({ finding }) => finding.page_of === page);
  const cards = own.map(({ finding, place }, i) => findingCard(app, finding, place, { open: i === 0, excerpts: chunk.excerpts }));
  return h("section", { class: "findings" }, h("h3", {}, `Findings (${own.length})`), ...(cards.length ? cards : [h("p", { class: "muted" }, "None.")]));
}

function kindSection(app, chunk, kind) {
  const plots = chunk.plots.filter((plot) => plot.kind === kind);
  return plots.length ? app.plots.section(KIND_TITLES[kind], plots) : null;
}

function leftOut(chunk) {
  const more = chunk.cells_left_out ? ` ${plural(chunk.cells_left_out, "more cell")} with findings had no room.` : "";
  return h("p", { class: "muted small" }, "Linked targets show every raw field.", more, " Of all others ", h("code", {}, "portkit show CELL"), " does.");
}

const rowsView = {
  title: () => "Rows",
  async show(app, place) {
    const table = rowsTable(app, "All rows");
    place.append(h("h2", {}, "Rows"), legend(app), table.element,
      h("p", { class: "muted small" }, "Linked targets show every raw field. Of all others ", h("code", {}, "portkit show CELL"), " does."));
    return { filter: (rows) => { table.rows = rows; } };
  },
};

const MOST_CARDS = 100;

const findingsView = {
  title: () => "Findings",
  async show(app, place) {
    const list = h("div", { class: "findings" });
    const status = h("p", { class: "muted", role: "status" });
    let words = "";
    const update = () => {
      const shown = app.data.findings.map((finding, place) => ({ finding, place })).filter(({ finding }) => app.filters.allowsFinding(finding))
        .filter(({ finding }) => words.split(/\s+/).every((word) => JSON.stringify(finding).toLowerCase().includes(word)));
      list.replaceChildren(...shown.slice(0, MOST_CARDS).map(({ finding, place }) => findingCard(app, finding, place)));
      status.textContent = shown.length > MOST_CARDS ? `the gravest ${MOST_CARDS} of ${shown.length}: filter or search for others` : plural(shown.length, "finding");
    };
    const search = settled((event) => { words = event.target.value.trim().toLowerCase(); update(); });
    place.append(h("h2", {}, "Findings"), h("div", { class: "bar" }, h("input", { type: "search", "aria-label": "Search findings", placeholder: "Search", input: search }), status), list);
    return { filter: update };
  },
};

const hosts = {
  title: () => "Hosts and versions",
  async show(app, place) {
    place.append($("hosts").content.cloneNode(true));
    return {};
  },
};

const cell = {
  title: (app, row) => (app.rows.all.length > Number(row) ? `${app.rows.label(Number(row))} on ${app.rows.value("target", Number(row))}` : "No such cell"),
  async show(app, place, name) {
    const row = Number(name);
    const chunk = await app.chunkOf(app.rawCells.get(row) ?? null);
    const found = chunk.cells.find((each) => each.row === row);
    if (!found) { place.append(h("h2", {}, "No such cell"), h("p", {}, "Its raw fields are not in this file. ", h("code", {}, "portkit show CELL"), " shows them.")); return {}; }
    const page = app.rows.value("page", row);
    place.append(h("h2", { class: "long" }, found.label), h("p", {}, h("a", { href: kernelAddress(page) }, `← ${page}`)), fields(found.fields));
    return {};
  },
};

/** Plain values as nested lists of names. */
function fields(value) {
  if (Array.isArray(value)) {
    if (value.every((each) => each === null || typeof each !== "object")) return document.createTextNode(value.join(", ") || "none");
    return h("ol", { class: "raw" }, ...value.map((each) => h("li", {}, fields(each))));
  }
  if (value !== null && typeof value === "object") {
    return h("dl", { class: "raw" }, ...Object.entries(value).flatMap(([name, each]) => [h("dt", {}, name), h("dd", {}, fields(each))]));
  }
  return document.createTextNode(value === null ? "null" : String(value));
}

const VIEWS = { "": overview, kernel, findings: findingsView, rows: rowsView, hosts, cell };
