// The results of a search: their facets, and on wide screens a preview of the selected result.

import { fetchFragment, find, findAll, isAborted } from "./dom.js";
import { setFilters } from "./filters.js";
import { highlightTerms, scrollToMessage } from "./highlight.js";
import { onPage, page, pageName } from "./navigation.js";
import { rememberSearch } from "./recent.js";
import { searchKind } from "./search.js";
import { listedKind, switchKind } from "./sidebar.js";

const PREVIEW_DELAY = 120; // milliseconds, so that stepping through results loads only the last
let facetRequest = null;
let previewRequest = null;
let previewTimer = 0;
let selectedUrl = ""; // of the preview
let facetToFocus = "";

export function startResults() {
  onPage(() => {
    if (pageName() === "search") completePage();
    else cancel();
  });
  document.addEventListener("click", (event) => {
    const facet = event.target.closest("[data-facet-name]");
    if (facet) selectFacet(facet.dataset);
    const link = event.target.closest("a[data-preview]");
    if (link) onResultClick(link, event);
  });
  document.addEventListener("focusin", (event) => {
    if (event.target.matches?.(".hit a[data-preview]")) select(event.target);
  });
  addEventListener("resize", onResize);
}

/** Replace the results. The facets stay until the new ones arrive, so that nothing jumps. */
export function showResults(fragment) {
  const column = find("[data-results]", page());
  const oldFacets = findAll("[data-facets] > *", column);
  column.replaceChildren(fragment);
  find("[data-facets]", column)?.replaceChildren(...oldFacets);
  completePage();
}

function completePage() {
  loadFacets();
  const links = findAll(".hit a[data-preview]", page());
  const link = links.find((candidate) => candidate.dataset.preview === selectedUrl) ?? links[0];
  if (link) select(link, { isNew: true });
  else clearPreview();
}

function cancel() {
  facetRequest?.abort();
  previewRequest?.abort();
  clearTimeout(previewTimer);
}

// -- facets ---

async function loadFacets() {
  facetRequest?.abort();
  const controller = (facetRequest = new AbortController());
  const area = find("[data-facets]", page());
  if (!area) return;
  const parameters = new URLSearchParams(location.search);
  const { dataset } = find("[data-hits]", page());
  if ("typing" in dataset) parameters.set("typing", "1");
  if ("asTyped" in dataset) parameters.set("correct", "0");
  area.setAttribute("aria-busy", "true");
  try {
    const fragment = await fetchFragment(`/console/facets?${parameters}`, { signal: controller.signal });
    area.replaceChildren(fragment);
    if (facetToFocus) find(`[data-facet="${facetToFocus}"] summary`, area)?.focus();
    facetToFocus = "";
  } catch (error) {
    if (!isAborted(error)) area.replaceChildren(error.message);
  } finally {
    if (facetRequest === controller) area.removeAttribute("aria-busy");
  }
}

async function selectFacet({ facetName: name, facetValue: value, after, before }) {
  facetToFocus = name;
  if (name === "kind") {
    searchKind(value || "all");
    return;
  }
  if (listedKind() !== "conversations") await switchKind("conversations", "/");
  setFilters(name === "month" ? { after, before } : { [name]: value });
}

// -- preview ---

const pane = () => find("[data-preview-pane]", page() ?? document);
const isPaneVisible = () => Boolean(pane()?.offsetParent);

/** A click shows the preview. A double click, Enter, and a click on small screens open the page. */
function onResultClick(link, event) {
  rememberSearch(find("[data-hits]", page()).dataset.query);
  const isPlain = !(event.button || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey);
  if (!isPlain || event.detail !== 1 || !isPaneVisible()) return;
  event.preventDefault();
  select(link);
}

function select(link, { isNew = false } = {}) {
  const url = link.dataset.preview;
  for (const hit of findAll(".hit[data-selected]", page())) hit.removeAttribute("data-selected");
  for (const line of findAll("a[data-current]", page())) line.removeAttribute("data-current");
  link.closest(".hit").setAttribute("data-selected", "");
  for (const line of findAll("a[data-preview]", link.closest(".hit"))) {
    line.toggleAttribute("data-current", line.dataset.preview === url && !line.matches(".title"));
  }
  if (url === selectedUrl && !isNew) return; // it is shown, or on its way
  clearTimeout(previewTimer);
  selectedUrl = isPaneVisible() ? url : "";
  if (!selectedUrl) return;
  previewTimer = setTimeout(loadPreview, PREVIEW_DELAY, url);
}

/** A window that was too narrow for the preview has become wide enough. */
function onResize() {
  if (selectedUrl || !isPaneVisible()) return;
  const link = find(".hit[data-selected] a[data-preview]", page());
  if (link) select(link);
}

async function loadPreview(url) {
  previewRequest?.abort();
  const controller = (previewRequest = new AbortController());
  try {
    const fragment = await fetchFragment(url, { signal: controller.signal });
    if (previewRequest !== controller || !isPaneVisible()) return;
    pane().replaceChildren(fragment);
    const body = find("[data-preview-body]", pane());
    highlightTerms(body, body.dataset.terms.split(" ").filter(Boolean));
    const target = find("[data-target]", body);
    if (target) scrollToMessage(target, find("[data-preview-scroller]", body));
  } catch (error) {
    if (!isAborted(error) && pane()) showPreviewText(error.message);
  }
}

function clearPreview() {
  selectedUrl = "";
  previewRequest?.abort();
  clearTimeout(previewTimer);
  if (pane()) showPreviewText("");
}

function showPreviewText(text) {
  const paragraph = document.createElement("p");
  paragraph.className = "hint preview-empty";
  paragraph.textContent = text;
  pane().replaceChildren(paragraph);
}
