// Notes, media, characters and prompts: load more of a long text, go to a time or field.

import { fetchFragment, find, findAll } from "./dom.js";
import { setFilters } from "./filters.js";
import { firstHighlight, highlightTerms } from "./highlight.js";
import { onPage, page, pageName } from "./navigation.js";
import { showToast } from "./toast.js";

const MAX_LOADS = 100; // on the way to a time

export function startItems() {
  onPage(openPage);
  addEventListener("hashchange", () => pageName() === "item" && goToPlace());
  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-load], [data-set-filter], .popup a[download]");
    if (!button) return;
    if (button.dataset.load) loadMore(button);
    else if (button.dataset.setFilter) {
      event.preventDefault();
      setFilters({ [button.dataset.setFilter]: button.dataset.value });
    } else button.closest(".menu").open = false;
  });
}

function openPage() {
  if (pageName() !== "item") return;
  highlightTerms(page(), queryTerms());
  goToPlace();
}

const queryTerms = () => page().dataset.terms.split(" ").filter(Boolean);

/** Scroll to the time, field or part in the URL, or else to the first highlighted word. */
async function goToPlace() {
  const root = page();
  const anchor = decodeURIComponent(location.hash.slice(1));
  const time = /^t=(\d+(?:\.\d+)?)/.exec(anchor);
  for (const cue of findAll("[data-current]", root)) cue.removeAttribute("data-current");
  let place = null;
  if (time) place = await findCue(root, Number(time[1]));
  else if (anchor) place = document.getElementById(anchor);
  else if (root.dataset.query) place = findMatch(root);
  if (!place || root !== page()) return;
  if (time) place.setAttribute("data-current", "");
  place.scrollIntoView({ block: anchor && !time ? "start" : "center" });
}

function findMatch(root) {
  const position = new URLSearchParams(location.search).get("p");
  const part = position ? document.getElementById(`p=${position}`) : null;
  const match = (part && firstHighlight(part)) ?? part ?? firstHighlight(root);
  const details = match?.closest("details");
  if (details) details.open = true;
  return match;
}

/** The cue at a time, after loading as much of the transcript as needed. */
async function findCue(root, seconds) {
  for (let loads = 0; loads < MAX_LOADS; loads++) {
    const cues = findAll("[data-seconds]", root);
    const cue = cues.findLast((candidate) => Number(candidate.dataset.seconds) < seconds + 1) ?? cues[0];
    const button = find("[data-load='after']", root);
    if (!button || cue !== cues.at(-1)) return cue;
    if (!(await loadMore(button))) return cue;
  }
  return null;
}

/** Load the text before or after the loaded part. Returns whether that worked. */
async function loadMore(button) {
  const { kind, id } = page().dataset;
  const parameters = new URLSearchParams({ kind, id, p: button.dataset.position });
  button.disabled = true;
  try {
    const part = find("[data-part]", await fetchFragment(`/console/item-part?${parameters}`));
    highlightTerms(part, queryTerms());
    if (button.dataset.load === "after") {
      button.closest("[data-part]").after(part);
      button.parentElement.remove();
    } else insertBefore(button, part);
    return true;
  } catch (error) {
    button.disabled = false;
    showToast(error.message);
    return false;
  }
}

/** Insert earlier text below its button and keep the visible text in place. */
function insertBefore(button, part) {
  const main = find("#main");
  const height = main.scrollHeight;
  find("[data-load='after']", part)?.parentElement.remove();
  button.parentElement.after(part);
  const start = Number(part.dataset.start);
  if (start > 0) {
    button.dataset.position = start - 1;
    button.disabled = false;
  } else button.parentElement.remove();
  main.scrollTop += main.scrollHeight - height;
}
