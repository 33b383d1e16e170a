// Elements from values. Text is only ever set as text, so names from a report can't become markup.

/** An element with attributes (null leaves one out, a function listens) and children (texts or nodes). */
function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") element.addEventListener(name, value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== null && value !== undefined && value !== false) element.setAttribute(name, value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return element;
}

const $ = (id) => document.getElementById(id);

/** A number with about four digits, without an exponent where it can be read without. */
function figure(value) {
  const size = Math.abs(value);
  if (value === 0 || (Number.isInteger(value) && size < 1e6)) return String(value);
  if (size >= 1e6 || size < 1e-3) return value.toExponential(2);
  return String(Number(value.toPrecision(4)));
}

const plural = (count, noun) => `${count.toLocaleString("en")} ${noun}${count === 1 ? "" : "s"}`;

/** Calls a function once its caller has been quiet for a while. */
function settled(action, wait = 120) {
  let timer = 0;
  return (...given) => {
    clearTimeout(timer);
    timer = setTimeout(() => action(...given), wait);
  };
}
