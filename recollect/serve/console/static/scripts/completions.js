// Completions of fields such as `role:` and `in:`, in the search box.

import { fetchFragment, find, findAll, isAborted } from "./dom.js";

const FIELD = /(?:^|\s)-?(?:role|in|project|source|tag|before|after):(?:"[^"]*|\S*)$/;
const input = find("#q");
const list = find("#completions");
let pendingRequest = null;
let pendingNames = null;

export function startCompletions() {
  document.addEventListener("input", listNames);
  input.addEventListener("input", update);
  input.addEventListener("blur", close);
  input.addEventListener("keydown", onKey);
  list.addEventListener("pointerdown", (event) => {
    const option = event.target.closest("[role='option']");
    event.preventDefault(); // the search box keeps the focus
    if (option) accept(option);
  });
}

/** Offer the projects or tags that contain the text of an input, also rare ones. */
async function listNames({ target }) {
  const facet = target.dataset?.names;
  if (!facet) return;
  pendingNames?.abort();
  const controller = (pendingNames = new AbortController());
  const parameters = new URLSearchParams({ facet, text: target.value });
  try {
    const names = await fetchFragment(`/console/names?${parameters}`, { signal: controller.signal });
    target.list?.replaceChildren(names);
  } catch {
    // The names that were offered before remain.
  }
}

/** Whether the cursor is in a field that can be completed. */
export const isInField = (text, cursor) => FIELD.test(text.slice(0, cursor));

/** Completions for the text before the cursor, as list items. */
export async function fetchCompletions(text, cursor, signal) {
  const parameters = new URLSearchParams({ text, cursor });
  return fetchFragment(`/console/completions?${parameters}`, { signal });
}

async function update() {
  pendingRequest?.abort();
  const cursor = input.selectionStart;
  if (!isInField(input.value, cursor)) {
    close();
    return;
  }
  const controller = (pendingRequest = new AbortController());
  try {
    const fragment = await fetchCompletions(input.value, cursor, controller.signal);
    if (pendingRequest !== controller || document.activeElement !== input) return;
    list.replaceChildren(fragment);
    toggle(options().length > 0);
  } catch (error) {
    if (!isAborted(error)) close();
  }
}

const options = () => findAll("[role='option']", list);
const active = () => find("[aria-selected='true']", list);

function toggle(isOpen) {
  list.hidden = !isOpen;
  input.setAttribute("aria-expanded", String(isOpen));
  if (!isOpen) input.removeAttribute("aria-activedescendant");
}

function close() {
  pendingRequest?.abort();
  toggle(false);
}

function onKey(event) {
  if (list.hidden || event.isComposing) return;
  if (event.key === "ArrowDown" || event.key === "ArrowUp") step(event.key === "ArrowDown" ? 1 : -1);
  else if (event.key === "Tab" && !event.shiftKey) accept(active() ?? options()[0]);
  else if (event.key === "Enter" && active()) accept(active());
  else if (event.key === "Escape") close();
  else return;
  event.preventDefault();
  event.stopPropagation();
}

function step(by) {
  const all = options();
  const index = all.indexOf(active());
  const next = all[(index + by + all.length + (index < 0 && by < 0 ? 1 : 0)) % all.length];
  for (const option of all) option.setAttribute("aria-selected", String(option === next));
  input.setAttribute("aria-activedescendant", next.id);
  next.scrollIntoView({ block: "nearest" });
}

function accept(option) {
  applyCompletion(input, option);
  close();
  input.dispatchEvent(new Event("input", { bubbles: true }));
}

/** Put a completion into a field. */
export function applyCompletion(field, option) {
  field.value = option.dataset.completion;
  field.setSelectionRange(Number(option.dataset.cursor), Number(option.dataset.cursor));
}
