// Findings: what differs, why, what it costs and what to change, with the lines of IR behind it.

const targetsIn = (names) => (names.length ? names.join(", ") : "none");

/** One finding, folded to a line; what it says and its excerpts are inside. */
function findingCard(app, finding, place, { open = false, excerpts = null } = {}) {
  const of = [finding.shape.join("x"), finding.dtype, finding.variant].filter(Boolean).join(" ");
  const more = finding.operations > 1 ? ` and ${plural(finding.operations - 1, "more operation")}` : "";
  const head = h("summary", {},
    h("span", { class: `severity ${finding.severity}` }, finding.severity),
    h("span", { class: "rule" }, finding.rule),
    h("b", {}, finding.title), h("span", { class: "muted" }, ` ${finding.page_of}, ${of}${more}`));
  const body = h("div", {},
    h("p", {}, finding.explanation), h("p", {}, h("b", {}, "Remedy. "), finding.remedy),
    h("dl", { class: "facts" },
      h("dt", {}, "Holds on"), h("dd", {}, targetsIn(finding.targets)),
      h("dt", {}, "Not on"), h("dd", {}, targetsIn(finding.against)),
      h("dt", {}, "Rests on"), h("dd", {}, ...finding.evidence.flatMap((each) => [...evidenceMark(app, each, { named: true }), " "])),
      h("dt", {}, "More"), h("dd", {}, h("code", {}, `portkit explain ${finding.rule}`))));
  const card = h("details", { class: "finding", open, "data-finding": place }, head, body);
  const show = async () => {
    if (!card.open || card.dataset.filled) return;
    card.dataset.filled = "yes";
    const found = (excerpts ?? (await app.chunkOf(finding.page_of)).excerpts)[place];
    if (found) body.append(excerptView(found));
  };
  card.addEventListener("toggle", show);
  if (open) show();
  return card;
}

/** Lines of two targets side by side. */
function excerptView(excerpts) {
  return h("div", { class: "excerpts" }, ...excerpts.map(excerptFigure));
}

function excerptFigure(excerpt) {
  const holds = excerpt.holds ? "(holds)" : "(does not hold)";
  const told = ` ${holds} · ${excerpt.kernel} · ${excerpt.stage} · ${plural(excerpt.matches, "line")}`;
  const text = h("pre", {}, ...excerpt.lines.map(excerptLine));
  return h("figure", {},
    h("figcaption", {}, h("b", {}, excerpt.target), told),
    scrollable(`${excerpt.stage} of ${excerpt.target}`, text));
}

function excerptLine(line) {
  const number = h("i", { "aria-hidden": "true" }, String(line.number).padStart(5));
  return h("span", { class: line.match ? "line match" : "line" }, number, `  ${line.text}\n`);
}
