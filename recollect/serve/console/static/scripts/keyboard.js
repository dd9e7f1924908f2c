// Keyboard shortcuts, and the buttons that run the same commands. Single keys can be turned off
// in the help, and never act while the person is typing.

import { deleteDocument, focusTagInput, showRenameForm, toggleExportMenu } from "./actions.js";
import { goToEnd, goToStart, stepMatch } from "./conversation.js";
import { find, findAll, isTextField, loadSetting, saveSetting } from "./dom.js";
import { clearFilters, openFilters } from "./filters.js";
import { goTo, page, pageName, toggleDrawer, toggleSidebar } from "./navigation.js";
import { backToResults, focusSearch, leaveSearch, loadMoreHits, searchAsTyped, stepHit } from "./search.js";
import { openRowMenu } from "./row_menu.js";
import { scrollByKey } from "./scrolling.js";
import { stepRow } from "./sidebar.js";
import { switchTheme } from "./theme_choice.js";
import { undo } from "./toast.js";
import { chooseFiles } from "./uploads.js";

const help = find("#help");
const step = (by) => (pageName() === "search" ? stepHit(by) : stepRow(by));

const SHORTCUTS = {
  "/": focusSearch,
  j: () => step(1),
  k: () => step(-1),
  n: () => stepMatch("next"),
  p: () => stepMatch("previous"),
  g: goToStart,
  G: goToEnd,
  r: renameOrEdit,
  c: () => find("[data-new]")?.click(),
  t: focusTagInput,
  e: toggleExportMenu,
  "#": deleteDocument,
  u: undo,
  f: () => {
    toggleDrawer(true);
    openFilters();
  },
  i: chooseFiles,
  m: () => openRowMenu(),
  "[": toggleSidebar,
  "?": () => help.showModal(),
};
for (const [index, tab] of findAll("[data-tab]").entries()) SHORTCUTS[index + 1] = () => tab.click();

const WRITE_SHORTCUTS = ["r", "c", "t", "#", "u", "i"]; // disabled for read-only keys

const COMMANDS = {
  drawer: () => toggleDrawer(!document.body.hasAttribute("data-drawer")),
  collapse: toggleSidebar,
  help: () => help.showModal(),
  theme: switchTheme,
  search: focusSearch,
  rename: () => showRenameForm(true),
  delete: deleteDocument,
  "clear-filters": (button, event) => {
    event.preventDefault();
    clearFilters();
  },
  "more-hits": loadMoreHits,
  "search-as-typed": searchAsTyped,
  "to-start": goToStart,
  "to-end": goToEnd,
};

export function startKeyboard() {
  const checkbox = find("[data-shortcuts]");
  checkbox.checked = loadSetting("shortcuts") !== "off";
  checkbox.addEventListener("change", () => saveSetting("shortcuts", checkbox.checked ? "on" : "off"));
  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-command]");
    if (button) COMMANDS[button.dataset.command]?.(button, event);
  });
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
    if (event.defaultPrevented || find("dialog[open], :popover-open")) return;
    if (event.key === "Escape") onEscape(event);
    else if (scrollByKey(event)) event.preventDefault();
    else if (event.key === "ArrowDown" || event.key === "ArrowUp") onArrow(event);
    else if (checkbox.checked) onShortcut(event);
  });
}

function onShortcut(event) {
  const run = SHORTCUTS[event.key];
  if (!run || isTextField(event.target)) return;
  if (WRITE_SHORTCUTS.includes(event.key) && document.body.hasAttribute("data-read-only")) return;
  event.preventDefault();
  run();
}

function onArrow(event) {
  const by = event.key === "ArrowDown" ? 1 : -1;
  const target = event.target;
  const popup = target.closest?.(".popup");
  if (target.id === "q" && pageName() === "search" && by > 0) stepHit(1);
  else if (target.closest?.(".row")) stepRow(by);
  else if (target.closest?.(".hit") && !isTextField(target)) stepHit(by);
  else if (popup && !isTextField(target)) {
    const buttons = findAll("button, a", popup);
    buttons[(buttons.indexOf(target) + by + buttons.length) % buttons.length].focus();
  } else if (target === document.body && pageName() !== "conversation") step(by);
  else return;
  event.preventDefault();
}

function onEscape(event) {
  const target = event.target;
  const menu = find(".menu[open]");
  if (menu) {
    menu.open = false;
    find("summary", menu).focus();
  } else if (target.closest?.("[data-rename]")) {
    showRenameForm(false);
    find("[data-name]").focus();
  } else if (document.body.hasAttribute("data-drawer")) toggleDrawer(false);
  else if (target.id === "q" || pageName() === "search") leaveSearch();
  else if (isTextField(target)) target.blur();
  else if (["conversation", "item"].includes(pageName()) && page().dataset.query) backToResults();
  else if (["item", "writing", "missing"].includes(pageName())) goTo(`/knowledge/${page().dataset.kind}`);
  else if (pageName() !== "start") goTo("/");
  else return;
  event.preventDefault();
}

function renameOrEdit() {
  if (pageName() === "item") find("[data-edit]", page()).click();
  else showRenameForm(true);
}
