// Small helpers. HTML comes from the server only, where stored text is escaped; nothing here builds it from data.

export const one = (selector, root = document) => root.querySelector(selector);
export const all = (selector, root = document) => [...root.querySelectorAll(selector)];

export class Refused extends Error {
  constructor(status, sentence) {
    super(sentence);
    this.status = status;
  }
}

/** Ask the server; anything but success becomes an error with the server's own sentence. */
export async function ask(address, options = {}) {
  const answer = await fetch(address, { credentials: "same-origin", ...options });
  if (answer.ok) return answer;
  if (answer.status === 401) {
    location.assign(`/login?next=${encodeURIComponent(location.pathname + location.search)}`);
  }
  let sentence = `The server answered ${answer.status}.`;
  try {
    sentence = (await answer.json()).detail || sentence;
  } catch {
    // not JSON: the status has to do
  }
  throw new Refused(answer.status, sentence);
}

/** A piece of a page as the server made it. */
export async function fragment(address, { kind = "part", signal } = {}) {
  const answer = await ask(address, { signal, headers: { "X-Recollect-Fragment": kind } });
  const template = document.createElement("template");
  template.innerHTML = await answer.text();
  settle(template.content);
  return template.content;
}

const full = new Intl.DateTimeFormat(undefined, { dateStyle: "full", timeStyle: "medium" });
const short = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "short" });

/** Times in the person's own zone. */
export function settle(root) {
  for (const time of all("time[datetime]", root)) {
    const when = new Date(time.dateTime);
    if (!time.dateTime || Number.isNaN(when.getTime())) continue;
    time.title = full.format(when);
    if (time.hasAttribute("data-long")) time.textContent = short.format(when);
  }
}

/** Whether an error only says that a request was given up. */
export const given_up = (error) => error instanceof DOMException && error.name === "AbortError";

export const typing = (element) =>
  element instanceof HTMLElement && (element.isContentEditable || /^(INPUT|SELECT|TEXTAREA)$/.test(element.tagName)) &&
  !["range", "checkbox", "button", "submit"].includes(element.type);

export function remembered(name, value) {
  try {
    if (value === undefined) return localStorage.getItem(`recollect-${name}`);
    localStorage.setItem(`recollect-${name}`, value);
  } catch {
    // storage may be switched off
  }
  return null;
}

const number = new Intl.NumberFormat("en");
export const counted = (n, word, many = `${word}s`) => `${number.format(n)} ${n === 1 ? word : many}`;
export const spelled = (n) => number.format(n);
