// The filters above the list.

import { find, findAll } from "./dom.js";

const NAMES = ["project", "source", "tag", "type", "role", "model", "after", "before", "title"];
const TYPING_PAUSE = 150; // milliseconds
const listeners = [];
const form = () => find("[data-filters]");

/** The active filters as query parameters. */
export function currentFilters() {
  const parameters = new URLSearchParams();
  for (const name of NAMES) {
    const value = form().elements[name]?.value.trim();
    if (value) parameters.set(name, value);
  }
  return parameters;
}

/** Add the active filters to a URL, so that reloading the page keeps them. */
export function withFilters(address) {
  const url = new URL(address, location.origin);
  for (const name of NAMES) url.searchParams.delete(name);
  for (const [name, value] of currentFilters()) url.searchParams.set(name, value);
  return url.pathname + url.search + url.hash;
}

/** Set filters as if the person had chosen them in the form. Empty values remove a filter. */
export function setFilters(values) {
  const parameters = currentFilters();
  for (const [name, value] of Object.entries(values)) parameters.set(name, value);
  readFilters(`/?${parameters}`);
  notify();
}

/** Whether a URL has filters that apply to a search. */
export function hasFilters(address) {
  const parameters = new URL(address, location.origin).searchParams;
  return NAMES.some((name) => name !== "title" && parameters.get(name));
}

export const onFiltersChange = (listener) => listeners.push(listener);

/** Set the form from a URL without notifying listeners. Returns whether anything changed. */
export function readFilters(address) {
  const parameters = new URL(address, location.origin).searchParams;
  let changed = false;
  for (const name of NAMES) {
    const field = form().elements[name];
    const value = parameters.get(name) ?? "";
    if (!field || field.value === value) continue;
    if (field.tagName === "SELECT" && value && ![...field.options].some((option) => option.value === value)) {
      field.add(new Option(value, value));
    }
    field.value = value;
    changed = true;
  }
  if (changed) showCount();
  return changed;
}

export function openFilters() {
  find("[data-filter-toggle]").open = true;
  find("[data-panel]").hidden = false;
  find("[data-panel] select").focus();
}

export function clearFilters() {
  for (const name of NAMES) if (form().elements[name]) form().elements[name].value = "";
  notify();
}

function showCount() {
  const count = [...currentFilters().keys()].filter((name) => name !== "title").length;
  const badge = find("[data-filter-count]");
  badge.textContent = count;
  badge.hidden = !count;
}

function notify() {
  showCount();
  for (const listener of listeners) listener();
}

export function startFilters() {
  let timer = 0;
  document.addEventListener("submit", (event) => {
    if (!event.target.matches("[data-filters]")) return;
    event.preventDefault();
    notify();
  });
  document.addEventListener("change", (event) => {
    if (event.target.closest("[data-filters]") && event.target.name !== "title") notify();
  });
  document.addEventListener("input", (event) => {
    if (!event.target.closest("[data-filters]") || event.target.name !== "title") return;
    clearTimeout(timer);
    timer = setTimeout(notify, TYPING_PAUSE);
  });
  const showPanel = (event) => {
    if (event.target.matches?.("[data-filter-toggle]")) find("[data-panel]").hidden = !event.target.open;
  };
  document.addEventListener("toggle", showPanel, true); // toggle events do not bubble
}

/** Update the options of the form, unless the person is using it. */
export function updateOptions(fragment) {
  if (form().contains(document.activeElement)) return;
  for (const select of findAll("select", fragment)) {
    const current = form().elements[select.name];
    if (!current) return; // the sidebar now lists another kind
    const value = current.value;
    current.replaceChildren(...select.children);
    current.value = value;
  }
}
