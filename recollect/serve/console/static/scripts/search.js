// Search as you type. Responses to outdated queries are dropped.

import { fetchFragment, find, findAll, isAborted } from "./dom.js";
import { clearFilters, currentFilters, hasFilters, onFiltersChange, setFilters, withFilters } from "./filters.js";
import { goTo, keepPlace, onPage, page, pageName } from "./navigation.js";
import { rememberSearch } from "./recent.js";
import { showResults } from "./results.js";
import { listedKind } from "./sidebar.js";
import { showToast } from "./toast.js";

const TYPING_PAUSE = 150; // milliseconds
const input = find("#q");
let timer = 0;
let pendingRequest = null;
let previousPage = "/";
let mode = "both";
let kind = ""; // empty: the server chooses

export function startSearch() {
  onPage(readOptions);
  keepPlace(readPlace, restorePlace);
  input.addEventListener("input", () => {
    clearTimeout(timer);
    pendingRequest?.abort();
    timer = setTimeout(() => isCompleting() || search({ isTyping: true }), TYPING_PAUSE);
  });
  input.form.addEventListener("submit", (event) => {
    event.preventDefault();
    clearTimeout(timer);
    rememberSearch(input.value);
    search();
  });
  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-mode], [data-suggestion], [data-back-to-results]");
    if (!button) return;
    if (button.matches("[data-back-to-results]")) {
      event.preventDefault();
      backToResults();
    } else if (button.matches("[data-suggestion]")) followSuggestion(button.dataset);
    else {
      mode = button.dataset.mode;
      search();
    }
  });
  onFiltersChange(() => {
    if (pageName() === "search") search();
    else if (pageName() === "items") goTo(location.pathname, { history: "replace", focus: false });
    else if (pageName() === "start") history.replaceState(null, "", withFilters(location.pathname));
    else history.replaceState(null, "", withFilters(location.pathname + location.search));
  });
}

/** Take over how the results in the page were searched. Filters imply the kind in the list. */
function readOptions() {
  if (pageName() !== "search") return;
  const parameters = new URLSearchParams(location.search);
  mode = parameters.get("mode") || "both";
  kind = parameters.get("kind") || "";
  if (kind === listedKind() && hasFilters(location.href)) kind = "";
}

/** Whether the person is choosing the value of a field. An incomplete field is not searched. */
const isCompleting = () => input.getAttribute("aria-expanded") === "true";

export function focusSearch() {
  input.focus();
  input.select();
}

/** Search for a text, as if it had been typed and confirmed. */
export function searchFor(text) {
  input.value = text;
  rememberSearch(text);
  return search();
}

/** Search in another kind. */
export function searchKind(name) {
  kind = name;
  return search();
}

/** One of the buttons that are offered if nothing matches. */
function followSuggestion({ query, clear, toKind, toMode }) {
  input.value = query;
  if (toKind) kind = toKind;
  if (toMode) mode = toMode;
  if (clear === "all") clearFilters();
  else if (clear) setFilters(Object.fromEntries(clear.split(" ").map((name) => [name, ""])));
  else search();
}

/** Clear the search and go back to the page it was started from. */
export function leaveSearch() {
  clearTimeout(timer);
  pendingRequest?.abort();
  input.value = "";
  if (pageName() === "search") goTo(previousPage, { history: "replace" });
  else input.blur();
}

/** Go back from a document to the results that led to it. */
export function backToResults() {
  input.value = page().dataset.query;
  return goTo(`/?${searchParameters()}`);
}

function searchParameters() {
  const parameters = currentFilters();
  parameters.delete("title");
  const hasFilters = parameters.toString() !== "";
  parameters.set("q", input.value);
  if (mode !== "both") parameters.set("mode", mode);
  if (kind) parameters.set("kind", kind);
  else if (hasFilters) parameters.set("kind", listedKind());
  return parameters;
}

/** Search for the words exactly as typed, after a correction. */
export function searchAsTyped() {
  const parameters = searchParameters();
  parameters.set("correct", "0");
  return goTo(`/?${parameters}`);
}

async function search({ isTyping = false } = {}) {
  const text = input.value.trim();
  if (!text) {
    if (pageName() === "search") await goTo(previousPage, { history: "replace", focus: false });
    return;
  }
  if (pageName() !== "search") {
    previousPage = location.pathname + location.search;
    await goTo(`/?${searchParameters()}`, { focus: false });
    return;
  }
  pendingRequest?.abort();
  const controller = (pendingRequest = new AbortController());
  page().setAttribute("aria-busy", "true");
  try {
    const parameters = searchParameters();
    if (isTyping) parameters.set("typing", "1"); // the last word may be unfinished
    const fragment = await fetchFragment(`/console/hits?${parameters}`, { signal: controller.signal });
    if (pendingRequest !== controller || pageName() !== "search") return;
    page().dataset.title = document.title = `${text} · Recollect`;
    history.replaceState(null, "", withFilters(`/?${searchParameters()}`));
    showResults(fragment);
    find("#main").scrollTop = 0;
  } catch (error) {
    if (!isAborted(error)) showToast(error.message);
  } finally {
    if (pendingRequest === controller) page()?.removeAttribute("aria-busy");
  }
}

/** Load the next page of results. Returns whether that worked. */
export async function loadMoreHits(button) {
  const parameters = new URLSearchParams(location.search);
  const lastPage = findAll("[data-hits]").at(-1).dataset;
  parameters.set("offset", lastPage.next);
  if ("typing" in lastPage) parameters.set("typing", "1");
  if ("asTyped" in lastPage) parameters.set("correct", "0");
  button.disabled = true;
  try {
    const fragment = await fetchFragment(`/console/hits?${parameters}`);
    button.parentElement.remove();
    const firstHit = find(".hit-link", fragment);
    find("[data-results]").append(fragment);
    firstHit?.focus({ preventScroll: true });
    return true;
  } catch (error) {
    button.disabled = false;
    showToast(error.message);
    return false;
  }
}

/** How many results are in the page, and which one has the focus. */
function readPlace() {
  if (pageName() !== "search") return {};
  const link = document.activeElement?.closest("a[data-preview]");
  return { hits: findAll("[data-hit]", page()).length, hit: link?.getAttribute("href") ?? "" };
}

async function restorePlace({ hits = 0, hit = "" }) {
  if (pageName() !== "search") return;
  const shown = page();
  while (shown === page() && findAll("[data-hit]", shown).length < hits) {
    const button = find("[data-command='more-hits']", shown);
    if (!button || !(await loadMoreHits(button))) break;
  }
  const lines = findAll(".hit-link, .line-link", shown);
  lines.find((line) => line.getAttribute("href") === hit)?.focus({ preventScroll: true });
}

/** Focus the next or previous line. Before the first line is the search box. */
export function stepHit(by) {
  const lines = findAll(".hit-link, .line-link", page());
  if (!lines.length) return;
  let index = lines.indexOf(document.activeElement);
  if (index < 0 && by < 0) index = 0;
  if (index + by < 0) {
    focusSearch();
    return;
  }
  const line = lines[Math.min(index + by, lines.length - 1)];
  line.focus({ preventScroll: true });
  line.scrollIntoView({ block: "nearest" });
}
