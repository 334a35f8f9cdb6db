// Building and changing the page. Text of the server goes in as text, never as markup.

/** @param {string} id */
export const byId = (id) => document.getElementById(id);

/**
 * An element with attributes and children; strings become text nodes.
 * @param {string} tag @param {Record<string, string>} attributes @param {...(Node|string)} children
 */
export function el(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

/** Sets text only if it differs: no needless layout, and selections survive. */
export function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

/** Sets an attribute, or removes it if the value is null. */
export function setAttribute(node, name, value) {
  if (value === null) node.removeAttribute(name);
  else if (node.getAttribute(name) !== value) node.setAttribute(name, value);
}

// Characters that are invisible or turn the reading direction could make one name look like another.
const UNSEEN = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu;

/** The text with invisible characters spelled out. */
export function visible(text) {
  return String(text).replace(UNSEEN, (c) => `⟨${c.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}⟩`);
}

/** Sets a text that may be longer than its place, which cuts it: pointing at it shows all of it. */
export function setCut(node, text) {
  const shown = visible(text);
  setText(node, shown);
  setAttribute(node, "title", shown || null);
}

const prose = new WeakMap();

/**
 * Shows a sentence whose `quoted` parts are names or commands. Nothing in it becomes markup.
 * @param {{name: string, href: string}=} link the quoted name that becomes a link
 */
export function setProse(node, text, link) {
  if (prose.get(node) === text) return;
  prose.set(node, text);
  const parts = visible(text).split("`");
  // A mark without a partner is just a character.
  if (parts.length % 2 === 0) {
    const rest = parts.pop();
    parts[parts.length - 1] += `\`${rest}`;
  }
  node.classList.add("prose");
  const linked = link && visible(link.name);
  const quoted = (part) => (part === linked ? el("a", { href: link.href }, code(part)) : code(part));
  node.replaceChildren(...parts.map((part, i) => (i % 2 ? quoted(part) : part)));
}

const code = (text) => el("code", { title: text }, text);

/** Tells a screen reader, once. */
export function announce(text, urgent = false) {
  byId(urgent ? "shout" : "say").textContent = text;
}

/** Puts children in this order. Those that stay are not touched if they can be left, so that focus and hover survive. */
export function arrange(parent, wanted) {
  const staying = new Set(wanted);
  for (const child of [...parent.childNodes]) if (!staying.has(child)) child.remove();
  let at = parent.firstChild;
  for (const child of wanted) {
    if (child === at) at = at.nextSibling;
    else parent.insertBefore(child, at);
  }
}

export const reducedMotion = matchMedia("(prefers-reduced-motion: reduce)");
