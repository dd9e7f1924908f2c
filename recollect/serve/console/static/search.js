// Search as you type. An answer that comes after a newer question is dropped.

import { all, fragment, given_up, one } from "./dom.js";
import { filters, on_filters, with_filters } from "./filters.js";
import { go, kind, page } from "./going.js";
import { listed } from "./sidebar.js";
import { say } from "./toast.js";

const input = one("#q");
let waiting = 0;
let request = null;
let before = "/";
let mode = "both";
let group = "message";
let within = ""; // what to search; as the server thinks best unless the person says

export function start_search() {
  const said = new URLSearchParams(location.search);
  mode = said.get("mode") || mode;
  group = said.get("group") || group;
  within = said.get("in") || within;
  input.addEventListener("input", () => {
    clearTimeout(waiting);
    request?.abort();
    waiting = setTimeout(search, 150);
  });
  input.form.addEventListener("submit", (event) => {
    event.preventDefault();
    clearTimeout(waiting);
    search();
  });
  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-mode], [data-group], [data-within-of], [data-back-to-hits]");
    if (!button) return;
    if (button.matches("[data-back-to-hits]")) {
      event.preventDefault();
      back_to_hits();
      return;
    }
    if (button.dataset.mode) mode = button.dataset.mode;
    else if (button.dataset.withinOf) within = button.dataset.withinOf;
    else group = group === "message" ? "conversation" : "message";
    search();
  });
  on_filters(() => {
    if (kind() === "search") search();
    else if (kind() === "items") go(location.pathname, { history: "replace", focus: false });
    else if (kind() === "start") history.replaceState(null, "", with_filters(location.pathname));
    else history.replaceState(null, "", with_filters(location.pathname + location.search));
  });
}

export function focus_search() {
  input.focus();
  input.select();
}

/** Empty the search and go back to where it began. */
export function leave_search() {
  clearTimeout(waiting);
  request?.abort();
  input.value = "";
  if (kind() === "search") go(before, { history: "replace" });
  else input.blur();
}

/** From a conversation back to the results that led to it. */
export function back_to_hits() {
  input.value = page().dataset.query;
  return go(`/?${asked()}`);
}

function asked() {
  const given = filters();
  given.delete("title");
  given.set("q", input.value);
  if (mode !== "both") given.set("mode", mode);
  if (group !== "message") given.set("group", group);
  const chosen = within || ([...filters().keys()].some((name) => name !== "title") ? listed() : "");
  if (chosen) given.set("in", chosen);
  return given;
}

async function search() {
  const text = input.value.trim();
  if (!text) {
    if (kind() === "search") await go(before, { history: "replace", focus: false });
    return;
  }
  if (kind() !== "search") {
    before = location.pathname + location.search;
    await go(`/?${asked()}`, { focus: false });
    return;
  }
  request?.abort();
  const mine = (request = new AbortController());
  page().setAttribute("aria-busy", "true");
  try {
    const made = await fragment(`/console/hits?${asked()}`, { signal: mine.signal });
    if (request !== mine || kind() !== "search") return;
    page().replaceChildren(made);
    page().dataset.title = document.title = `${text} · Recollect`;
    history.replaceState(null, "", with_filters(`/?${asked()}`));
    one("#main").scrollTop = 0;
  } catch (error) {
    if (!given_up(error)) say(error.message);
  } finally {
    if (request === mine) page()?.removeAttribute("aria-busy");
  }
}

export async function more_hits(button) {
  const given = asked();
  given.set("offset", all("[data-hits]").at(-1).dataset.next);
  button.disabled = true;
  try {
    const made = await fragment(`/console/hits?${given}`);
    button.parentElement.remove();
    const first = one(".goto", made);
    page().append(made);
    first?.focus({ preventScroll: true });
  } catch (error) {
    button.disabled = false;
    say(error.message);
  }
}

/** Put the focus on the next or the previous hit; before the first one is the search box. */
export function step_hits(by) {
  const hits = all(".goto", page());
  if (!hits.length) return;
  const at = hits.indexOf(document.activeElement?.closest?.(".hit")?.querySelector(".goto"));
  if (at + by < 0 && at >= 0) return focus_search();
  const next = hits[Math.max(0, Math.min(at + by, hits.length - 1))];
  next.focus({ preventScroll: true });
  next.closest(".hit").scrollIntoView({ block: "nearest" });
}
