// Search as you type. Responses to outdated queries are dropped.

import { fetchFragment, find, findAll, isAborted } from "./dom.js";
import { currentFilters, onFiltersChange, withFilters } from "./filters.js";
import { goTo, page, pageName } from "./navigation.js";
import { listedKind } from "./sidebar.js";
import { showToast } from "./toast.js";

const TYPING_PAUSE = 150; // milliseconds
const input = find("#q");
let timer = 0;
let pendingRequest = null;
let previousPage = "/";
let mode = "both";
let group = "message";
let kind = ""; // empty: the server chooses

export function startSearch() {
  const parameters = new URLSearchParams(location.search);
  mode = parameters.get("mode") || mode;
  group = parameters.get("group") || group;
  kind = parameters.get("kind") || kind;
  input.addEventListener("input", () => {
    clearTimeout(timer);
    pendingRequest?.abort();
    timer = setTimeout(search, TYPING_PAUSE);
  });
  input.form.addEventListener("submit", (event) => {
    event.preventDefault();
    clearTimeout(timer);
    search();
  });
  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-mode], [data-group], [data-set-kind], [data-back-to-results]");
    if (!button) return;
    if (button.matches("[data-back-to-results]")) {
      event.preventDefault();
      backToResults();
      return;
    }
    if (button.dataset.mode) mode = button.dataset.mode;
    else if (button.dataset.setKind) kind = button.dataset.setKind;
    else group = group === "message" ? "conversation" : "message";
    search();
  });
  onFiltersChange(() => {
    if (pageName() === "search") search();
    else if (pageName() === "items") goTo(location.pathname, { history: "replace", focus: false });
    else if (pageName() === "start") history.replaceState(null, "", withFilters(location.pathname));
    else history.replaceState(null, "", withFilters(location.pathname + location.search));
  });
}

export function focusSearch() {
  input.focus();
  input.select();
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
  if (group !== "message") parameters.set("group", group);
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

async function search() {
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
    parameters.set("typing", "1"); // the last word may be unfinished
    const fragment = await fetchFragment(`/console/hits?${parameters}`, { signal: controller.signal });
    if (pendingRequest !== controller || pageName() !== "search") return;
    page().replaceChildren(fragment);
    page().dataset.title = document.title = `${text} · Recollect`;
    history.replaceState(null, "", withFilters(`/?${searchParameters()}`));
    find("#main").scrollTop = 0;
  } catch (error) {
    if (!isAborted(error)) showToast(error.message);
  } finally {
    if (pendingRequest === controller) page()?.removeAttribute("aria-busy");
  }
}

export async function loadMoreHits(button) {
  const parameters = searchParameters();
  const lastPage = findAll("[data-hits]").at(-1).dataset;
  parameters.set("offset", lastPage.next);
  if ("typing" in lastPage) parameters.set("typing", "1");
  if ("asTyped" in lastPage) parameters.set("correct", "0");
  button.disabled = true;
  try {
    const fragment = await fetchFragment(`/console/hits?${parameters}`);
    button.parentElement.remove();
    const firstHit = find(".hit-link", fragment);
    page().append(fragment);
    firstHit?.focus({ preventScroll: true });
  } catch (error) {
    button.disabled = false;
    showToast(error.message);
  }
}

/** Focus the next or previous hit. Before the first hit is the search box. */
export function stepHit(by) {
  const hits = findAll(".hit-link", page());
  if (!hits.length) return;
  const index = hits.indexOf(document.activeElement?.closest?.(".hit")?.querySelector(".hit-link"));
  if (index >= 0 && index + by < 0) {
    focusSearch();
    return;
  }
  const hit = hits[Math.max(0, Math.min(index + by, hits.length - 1))];
  hit.focus({ preventScroll: true });
  hit.closest(".hit").scrollIntoView({ block: "nearest" });
}
