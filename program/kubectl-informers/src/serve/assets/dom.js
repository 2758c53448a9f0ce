// Making and updating elements. Text from the cluster only ever becomes a text node: nothing here parses markup.

/** An element with classes and children; `el("td", "n", 7)`. */
export function el(name, classes = "", ...children) {
  const element = document.createElement(name);
  if (classes) element.className = classes;
  element.append(...children.filter((child) => child !== null && child !== undefined).map(node));
  return element;
}

const node = (child) => (child instanceof Node ? child : document.createTextNode(String(child)));

export const byId = (id) => document.getElementById(id);

/** Sets the text if it is another one, so that selections and screen readers are left alone. */
export function say(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** Makes the children of `parent` those of `items`, keeping the elements of keys that stay, in the order of `items`. */
export function reconcile(parent, items, keyOf, create, update) {
  const known = new Map();
  for (const child of parent.children) known.set(child.dataset.key, child);
  let at = parent.firstElementChild;
  for (const item of items) {
    const key = String(keyOf(item));
    let child = known.get(key);
    if (child) {
      known.delete(key);
    } else {
      child = create(item);
      child.dataset.key = key;
    }
    update?.(child, item);
    if (child === at) at = at.nextElementSibling;
    else parent.insertBefore(child, at);
  }
  for (const gone of known.values()) gone.remove();
}

/** Lets an element glow for a moment. */
export function flash(element) {
  element.classList.remove("flash");
  requestAnimationFrame(() => element.classList.add("flash"));
}

const units = ["B", "kB", "MB", "GB", "TB"];

export function bytes(count) {
  let unit = 0;
  while (count >= 1000 && unit < units.length - 1) {
    count /= 1000;
    unit += 1;
  }
  return `${unit === 0 || count >= 100 ? Math.round(count) : count.toFixed(1)} ${units[unit]}`;
}

export const whole = (count) => Number(count).toLocaleString("en-US");

export function rate(perSecond) {
  if (perSecond === 0) return "0";
  return perSecond >= 10 ? Math.round(perSecond).toString() : perSecond.toFixed(1);
}

/** `12s`, `4m`, `3h`, `5d`, as kubectl writes ages. */
export function age(seconds) {
  if (seconds === null || seconds === undefined || Number.isNaN(seconds)) return "–";
  const s = Math.max(0, Math.floor(seconds));
  if (s < 120) return `${s}s`;
  if (s < 7200) return `${Math.floor(s / 60)}m`;
  if (s < 172800) return `${Math.floor(s / 3600)}h`;
  return `${Math.floor(s / 86400)}d`;
}

export function clock(milliseconds) {
  return new Date(milliseconds).toLocaleTimeString("en-GB", { hour12: false });
}

export const plural = (count, one, many = `${one}s`) => `${whole(count)} ${count === 1 ? one : many}`;
