import { all, one } from "./dom.js";

const NAMES = ["namespace", "origin", "tag", "type", "role", "after", "before", "title"];
const listeners = [];
const form = () => one("[data-filters]");

/** The filters that are set, as parameters of an address. */
export function filters() {
  const given = new URLSearchParams();
  for (const name of NAMES) {
    const value = form().elements[name]?.value.trim();
    if (value) given.set(name, value);
  }
  return given;
}

/** An address with the filters in it, so that reloading keeps them. */
export function with_filters(address) {
  const url = new URL(address, location.origin);
  for (const name of NAMES) url.searchParams.delete(name);
  for (const [name, value] of filters()) url.searchParams.set(name, value);
  return url.pathname + url.search + url.hash;
}

/** Set one filter, as if it were chosen in the form. */
export function choose(name, value) {
  const given = filters();
  if (value) given.set(name, value);
  else given.delete(name);
  read_filters(`/?${given}`);
  tell();
}

export const on_filters = (listener) => listeners.push(listener);

/** Set the form as an address says, without telling anybody; whether anything changed. */
export function read_filters(address) {
  const given = new URL(address, location.origin).searchParams;
  let changed = false;
  for (const name of NAMES) {
    const field = form().elements[name];
    const wanted = given.get(name) ?? "";
    if (!field || field.value === wanted) continue;
    if (field.tagName === "SELECT" && wanted && ![...field.options].some((o) => o.value === wanted)) {
      field.add(new Option(wanted, wanted));
    }
    field.value = wanted;
    changed = true;
  }
  if (changed) show();
  return changed;
}

export function toggle_filters(open) {
  const choices = one("[data-choices]");
  choices.open = open ?? !choices.open;
  one("[data-panel]").hidden = !choices.open;
  if (choices.open) one("[data-panel] select").focus();
}

export function clear_filters() {
  for (const name of NAMES) if (form().elements[name]) form().elements[name].value = "";
  tell();
}

function show() {
  const chosen = [...filters().keys()].filter((name) => name !== "title").length;
  const count = one("[data-chosen]");
  count.textContent = chosen;
  count.hidden = !chosen;
}

function tell() {
  show();
  for (const listener of listeners) listener();
}

export function start_filters() {
  let waiting = 0;
  document.addEventListener("submit", (event) => {
    if (!event.target.matches("[data-filters]")) return;
    event.preventDefault();
    tell();
  });
  document.addEventListener("change", (event) => {
    if (event.target.closest("[data-filters]") && event.target.name !== "title") tell();
  });
  document.addEventListener("input", (event) => {
    if (!event.target.closest("[data-filters]") || event.target.name !== "title") return;
    clearTimeout(waiting);
    waiting = setTimeout(tell, 150);
  });
  document.addEventListener("toggle", (event) => {
    if (event.target.matches?.("[data-choices]")) one("[data-panel]").hidden = !event.target.open;
  }, true);
}

/** New choices for the lists, where nobody is using them. */
export function renew_choices(made) {
  if (form().contains(document.activeElement)) return;
  for (const fresh of all("select", made)) {
    const old = form().elements[fresh.name];
    if (!old) return; // another kind is listed by now
    const value = old.value;
    old.replaceChildren(...fresh.children);
    old.value = value;
  }
}
