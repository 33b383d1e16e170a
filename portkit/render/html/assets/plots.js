// Plots: a kind's specification and a plot's values, drawn by Vega with the page's width and colours.

const dark = () => {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
};

/** The specification for a height and a width; plots of several panels get as many a line as fit. */
function fitted(spec, height, width) {
  if (spec.facet) {
    const columns = Math.max(1, Math.min(6, Math.floor((width - 30) / (spec.spec.width + 50))));
    return { ...spec, columns, spec: { ...spec.spec, height } };
  }
  return { ...spec, width, height, autosize: { type: "fit-x", contains: "padding" } };
}

// Cascades under filters, by the same rules as portkit/analysis/views/cascade.py, which can't know what a reader filters

/** Values by what a function says of them, in their order. */
function grouped(values, key) {
  const groups = new Map();
  for (const value of values) {
    const name = key(value);
    if (!groups.has(name)) groups.set(name, []);
    groups.get(name).push(value);
  }
  return [...groups.values()];
}

/** Harmonic mean of efficiencies; 0 where one is 0. */
const portability = (steps) => steps.length / steps.reduce((sum, step) => sum + 1 / step.efficiency, 0);

/** The first of those with the most. */
const most = (values, figure) => values.reduce((best, each) => (figure(each) > figure(best) ? each : best));

/** Steps of a cascade over the targets that are left: the same efficiencies, their harmonic mean so far. */
function stepped(values) {
  return grouped(values, (value) => value.line).flatMap((steps) => {
    const falling = [...steps].sort((a, b) => b.efficiency - a.efficiency);
    return falling.map((step, i) => ({ ...step, place: i + 1, portability: portability(falling.slice(0, i + 1)) }));
  });
}

/** Of each kernel the worst operation in its best variant; the worst kernels first. */
function worstOfEach(candidates, count) {
  const variants = (steps) => grouped(steps, (step) => step.operation);
  const problems = grouped(candidates, (step) => JSON.stringify([step.page, step.problem]));
  const best = problems.map((steps) => most(variants(steps), portability));
  const worst = grouped(best, (steps) => steps[0].page).map((each) => most(each, (steps) => -portability(steps)));
  return worst.sort((a, b) => portability(a) - portability(b)).slice(0, count).flat();
}

class Plots {
  constructor(app) {
    this.app = app;
    this.drawn = new Set();
    addEventListener("resize", settled(() => this.redraw(), 200));
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.redraw());
  }

  forget() {
    for (const drawing of this.drawn) drawing.view?.finalize();
    this.drawn.clear();
  }

  async redraw() {
    for (const drawing of this.drawn) await this.draw(drawing);
  }

  /** A section of all plots of one kind, with a choice where there are several. */
  section(title, plots) {
    const drawing = { title, plots, plot: plots[0], place: h("div", { class: "plot", role: "img" }) };
    drawing.caption = h("figcaption", {});
    drawing.values = h("details", { class: "values" }, h("summary", {}, "Values"));
    drawing.values.addEventListener("toggle", () => { if (drawing.values.open) this.tabulate(drawing); });
    this.drawn.add(drawing);
    const save = h("button", { type: "button", class: "quiet", click: () => this.save(drawing) }, "Save SVG");
    drawing.bar = h("div", { class: "bar" }, drawing.values, save);
    const change = (event) => { drawing.plot = plots[event.target.value]; this.draw(drawing); };
    drawing.select = h("select", { change });
    drawing.choice = h("label", { class: "choice" }, "Show ", drawing.select);
    const body = h("figure", {}, drawing.caption, drawing.place, drawing.bar);
    return h("section", { class: "kind", "data-kind": plots[0].kind }, h("h3", {}, title), drawing.choice, body);
  }

  /** Values of a plot that the filters leave; null where they leave none. */
  values(plot) {
    const { filters, data } = this.app;
    if (!filters.active) return plot.datasets;
    const kind = data.kinds[plot.kind];
    if (plot.candidates) {
      const left = plot.candidates.filter((value) => filters.ofValue(value, kind));
      return left.length ? { steps: stepped(worstOfEach(left, plot.most)) } : null;
    }
    const kept = filters.ofPlot(plot, kind);
    return kept && plot.kind === "cascade" ? { ...kept, steps: stepped(kept.steps) } : kept;
  }

  /** Takes the plot chosen, or the first that the filters leave, and says which there are. */
  choose(drawing) {
    const left = drawing.plots.map((plot, i) => [plot, i]).filter(([plot]) => this.values(plot));
    if (!left.some(([plot]) => plot === drawing.plot)) drawing.plot = left[0]?.[0] ?? null;
    const name = (plot) => [plot.operation, plot.detail].filter(Boolean).join(", ") || plot.title;
    const option = ([plot, i]) => h("option", { value: i, selected: plot === drawing.plot }, name(plot));
    drawing.select.replaceChildren(...left.map(option));
    drawing.choice.hidden = left.length < 2;
    drawing.bar.hidden = !drawing.plot;
  }

  /** The whole specification of what is shown, in light or dark. */
  specification(drawing, scheme, width) {
    const style = this.app.data.styles[scheme];
    return {
      ...fitted(this.app.data.kinds[drawing.plot.kind].spec, drawing.plot.height, width),
      datasets: this.values(drawing.plot),
      config: { ...style, legend: { ...style.legend, columns: Math.max(1, Math.floor(width / 150)) } },
    };
  }

  async draw(drawing) {
    this.choose(drawing);
    drawing.view?.finalize();
    drawing.view = null;
    if (!drawing.plot) return this.nothing(drawing);
    const { plot, place } = drawing;
    const filtered = this.app.filters.active ? "Shown is what the filters leave." : null;
    const head = [drawing.title === plot.title ? null : plot.title, plot.operation].filter(Boolean).join(", ");
    drawing.caption.textContent = [head, plot.alt, filtered].filter(Boolean).join(" · ");
    if (drawing.values.open) this.tabulate(drawing);
    const spec = this.specification(drawing, dark() ? "dark" : "light", place.clientWidth || 320);
    const { view } = await vegaEmbed(place, spec, { renderer: "svg", actions: false, ast: true });
    drawing.view = view;
    place.setAttribute("role", "img"); // Vega gives it another, and takes a label away
    place.setAttribute("aria-label", [plot.alt, filtered].filter(Boolean).join(" "));
    place.querySelector("svg")?.setAttribute("aria-hidden", "true");
    place.dataset.drawn = plot.kind;
  }

  nothing(drawing) {
    drawing.caption.textContent = "";
    drawing.place.replaceChildren(h("p", { class: "muted" }, "The filters leave nothing."));
    drawing.place.removeAttribute("role");
    drawing.place.removeAttribute("aria-label");
  }

  /** The values as tables, one a dataset. */
  tabulate(drawing) {
    const tables = Object.entries(this.values(drawing.plot)).map(([name, values]) => valuesTable(name, values));
    drawing.values.replaceChildren(drawing.values.firstElementChild, ...tables);
  }

  /** Always light, on white: it is for papers and mails. */
  async save(drawing) {
    const spec = this.specification(drawing, "light", drawing.place.clientWidth || 320);
    const options = { renderer: "svg", actions: false, ast: true };
    const { view } = await vegaEmbed(h("div", {}), { ...spec, background: "white" }, options);
    const url = URL.createObjectURL(new Blob([await view.toSVG()], { type: "image/svg+xml" }));
    view.finalize();
    h("a", { href: url, download: `${drawing.plot.kind}.svg` }).click();
    URL.revokeObjectURL(url);
  }
}

const MOST_VALUES = 500;

function valuesTable(name, values) {
  const fields = [...new Set(values.flatMap((value) => Object.keys(value)))];
  const shown = (value) => (typeof value === "number" ? figure(value) : String(value ?? "–"));
  const line = (value) => h("tr", {}, ...fields.map((field) => h("td", {}, shown(value[field]))));
  return scrollable(`Values: ${name}`, sortable(h("table", { class: "plain" },
    h("caption", {}, name),
    h("thead", {}, h("tr", {}, ...fields.map((field) => h("th", { scope: "col" }, field)))),
    h("tbody", {}, ...values.slice(0, MOST_VALUES).map(line)))));
}
