// The command palette: search, jump to a conversation or project, run a command.

import { applyCompletion, fetchCompletions } from "./completions.js";
import { fetchFragment, find, findAll, isAborted } from "./dom.js";
import { clearFilters, openFilters } from "./filters.js";
import { follow, goTo, toggleDrawer, toggleSidebar } from "./navigation.js";
import { recentSearches } from "./recent.js";
import { searchFor } from "./search.js";
import { showToast } from "./toast.js";
import { chooseFiles } from "./uploads.js";

const TYPING_PAUSE = 80; // milliseconds
const dialog = find("#palette");
const input = find("#palette-input");
const list = find("#palette-list");
const searchOption = find("[data-palette-search]", list);
const part = (name) => find(`[data-palette-part="${name}"]`, list);
let timer = 0;
let pendingRequest = null;

const COMMANDS = {
  start: () => goTo("/"),
  activity: () => goTo("/activity"),
  imports: () => goTo("/imports"),
  settings: () => goTo("/settings"),
  collapse: toggleSidebar,
  filters: () => {
    toggleDrawer(true);
    openFilters();
  },
  "clear-filters": clearFilters,
  import: chooseFiles,
  note: () => goTo("/knowledge/notes?new=true"),
  theme: () => find("[data-command='theme']").click(),
  help: () => find("#help").showModal(),
};

export function startPalette() {
  document.addEventListener("keydown", (event) => {
    const isShortcut = (event.ctrlKey || event.metaKey) && !event.altKey && !event.shiftKey;
    if (!isShortcut || event.key.toLowerCase() !== "k") return;
    event.preventDefault();
    if (dialog.open) dialog.close();
    else if (!find("dialog[open]")) openPalette();
  });
  input.addEventListener("input", () => {
    pendingRequest?.abort(); // its results are for another text
    pendingRequest = null;
    filterStaticParts();
    clearTimeout(timer);
    timer = setTimeout(load, TYPING_PAUSE);
  });
  input.addEventListener("keydown", onKey);
  list.addEventListener("pointermove", (event) => {
    const option = event.target.closest("[role='option']");
    if (option) activate(option, { scroll: false });
  });
  list.addEventListener("click", (event) => {
    const option = event.target.closest("[role='option']");
    if (option) run(option);
  });
  dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());
}

function openPalette() {
  input.value = "";
  part("completions").replaceChildren();
  part("results").replaceChildren();
  filterStaticParts();
  dialog.showModal();
  input.focus();
  load();
}

/** Filter what the page knows already, so that nothing outdated can be chosen. */
function filterStaticParts() {
  const text = input.value.trim();
  const folded = text.toLowerCase();
  searchOption.hidden = !text;
  find("[data-text]", searchOption).textContent = text;
  showSearches(folded);
  part("completions").replaceChildren();
  filterPart(part("commands"), folded);
  filterPart(part("results"), folded);
  activate(options()[0]);
}

function filterPart(element, folded) {
  for (const option of findAll("[role='option']", element)) {
    option.hidden = !option.textContent.toLowerCase().includes(folded);
  }
  const isEmpty = !find("[role='option']:not([hidden])", element);
  for (const head of findAll(".palette-group", element)) head.hidden = isEmpty;
}

function showSearches(folded) {
  const searches = recentSearches().filter((text) => text.toLowerCase().includes(folded));
  const items = searches.slice(0, folded ? 3 : 6).map((text, index) => {
    const item = find("#palette-recent").content.cloneNode(true).firstElementChild;
    item.id = `palette-recent-${index}`;
    item.dataset.recent = text;
    find("[data-text]", item).textContent = text;
    return item;
  });
  part("recent").replaceChildren(...(items.length ? [groupHead("Recent searches")] : []), ...items);
}

function groupHead(text) {
  const head = document.createElement("li");
  head.className = "palette-group";
  head.setAttribute("role", "presentation");
  head.textContent = text;
  return head;
}

async function load() {
  pendingRequest?.abort();
  const controller = (pendingRequest = new AbortController());
  const { signal } = controller;
  try {
    const [completions, results] = await Promise.all([
      input.value ? fetchCompletions(input.value, input.selectionStart, signal) : [],
      fetchFragment(`/console/palette?${new URLSearchParams({ text: input.value })}`, { signal }),
    ]);
    if (pendingRequest !== controller) return;
    const chosen = activeOption();
    part("completions").replaceChildren(completions);
    for (const option of findAll("[role='option']", part("completions"))) option.id = `palette-${option.id}`;
    part("results").replaceChildren(results);
    const isChosen = (option) => option === chosen || (chosen?.dataset.go && option.dataset.go === chosen.dataset.go);
    activate(options().find(isChosen) ?? options()[0]);
  } catch (error) {
    if (!isAborted(error)) showToast(error.message);
  }
}

const options = () => findAll("[role='option']:not([hidden])", list).filter((option) => option.offsetParent);
const activeOption = () => find("[aria-selected='true']", list);

function activate(option, { scroll = true } = {}) {
  activeOption()?.setAttribute("aria-selected", "false");
  if (!option) {
    input.removeAttribute("aria-activedescendant");
    return;
  }
  option.setAttribute("aria-selected", "true");
  input.setAttribute("aria-activedescendant", option.id);
  if (scroll) option.scrollIntoView({ block: "nearest" });
}

function onKey(event) {
  if (event.isComposing) return;
  const all = options();
  const index = all.indexOf(activeOption());
  if (event.key === "ArrowDown") activate(all[(index + 1) % all.length]);
  else if (event.key === "ArrowUp") activate(all[(index - 1 + all.length) % all.length]);
  else if (event.key === "Tab" && !event.shiftKey) complete();
  else if (event.key === "Enter" && activeOption()) run(activeOption());
  else return;
  event.preventDefault();
}

/** Tab accepts the active completion, or the first one. */
function complete() {
  const option = activeOption()?.dataset.completion ? activeOption() : find("[data-completion]", list);
  if (option) run(option);
}

function run(option) {
  const { completion, recent, go, paletteCommand: command } = option.dataset;
  if (completion !== undefined) {
    applyCompletion(input, option);
    input.focus();
    input.dispatchEvent(new Event("input"));
    return;
  }
  dialog.close();
  if (go) follow(go);
  else if (recent) searchFor(recent);
  else if (command) COMMANDS[command]();
  else searchFor(input.value);
}
