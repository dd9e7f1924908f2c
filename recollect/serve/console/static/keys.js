// Everything by keyboard. Single keys can be switched off in the help, and never act while somebody types.

import { export_menu, naming, remove, start_tag } from "./actions.js";
import { step_match, to_end, to_start } from "./conversation.js";
import { all, one, remembered, typing } from "./dom.js";
import { clear_filters, toggle_filters } from "./filters.js";
import { drawer, go, kind, page } from "./going.js";
import { back_to_hits, focus_search, leave_search, more_hits, step_hits } from "./search.js";
import { step } from "./sidebar.js";
import { undo } from "./toast.js";
import { choose_file } from "./uploads.js";

const help = one("#help");
const move = (by) => (kind() === "search" ? step_hits(by) : step(by));

const KEYS = {
  "/": focus_search,
  j: () => move(1),
  k: () => move(-1),
  n: () => step_match("next"),
  p: () => step_match("previous"),
  g: to_start,
  G: to_end,
  r: edit,
  c: () => one("[data-new]")?.click(),
  t: start_tag,
  e: export_menu,
  "#": remove,
  u: undo,
  f: () => {
    drawer(true);
    toggle_filters(true);
  },
  i: choose_file,
  "?": () => help.showModal(),
};

const CHANGING = ["r", "c", "t", "#", "u", "i"]; // not for a key that may only read

for (const [at, tab] of all("[data-tab]").entries()) KEYS[at + 1] = () => tab.click();

const ACTS = {
  drawer: () => drawer(!document.body.hasAttribute("data-drawer")),
  help: () => help.showModal(),
  theme: switch_theme,
  search: focus_search,
  rename: () => naming(true),
  delete: remove,
  "clear-filters": (button, event) => {
    event.preventDefault();
    clear_filters();
  },
  "more-hits": more_hits,
  "to-start": to_start,
  "to-end": to_end,
};

export function start_keys() {
  const switched = one("[data-shortcuts]");
  switched.checked = remembered("shortcuts") !== "off";
  switched.addEventListener("change", () => remembered("shortcuts", switched.checked ? "on" : "off"));
  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-act]");
    if (button) ACTS[button.dataset.act]?.(button, event);
  });
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing || help.open) return;
    if (event.key === "Escape") return escape(event);
    if (event.key === "ArrowDown" || event.key === "ArrowUp") return arrow(event);
    if (typing(event.target) || !switched.checked) return;
    const act = KEYS[event.key];
    if (!act || (CHANGING.includes(event.key) && document.body.hasAttribute("data-reader"))) return;
    event.preventDefault();
    act();
  });
}

function arrow(event) {
  const by = event.key === "ArrowDown" ? 1 : -1;
  const target = event.target;
  const sheet = target.closest?.(".sheet");
  if (target.id === "q" && kind() === "search" && by > 0) step_hits(1);
  else if (target.closest?.(".row")) step(by);
  else if (target.closest?.(".hit") && !typing(target)) step_hits(by);
  else if (sheet && !typing(target)) {
    const buttons = all("button, a", sheet);
    buttons[(buttons.indexOf(target) + by + buttons.length) % buttons.length].focus();
  } else if (target === document.body && kind() !== "conversation") move(by);
  else return;
  event.preventDefault();
}

function escape(event) {
  const target = event.target;
  const menu = one(".menu[open]");
  if (menu) {
    menu.open = false;
    one("summary", menu).focus();
  } else if (target.closest?.("[data-rename]")) {
    naming(false);
    one("[data-name]").focus();
  } else if (document.body.hasAttribute("data-drawer")) drawer(false);
  else if (target.id === "q" || kind() === "search") leave_search();
  else if (typing(target)) target.blur();
  else if (["conversation", "item"].includes(kind()) && page().dataset.query) back_to_hits();
  else if (["item", "writing", "missing"].includes(kind())) go(`/knowledge/${page().dataset.source}`);
  else if (kind() !== "start") go("/");
  else return;
  event.preventDefault();
}

function edit() {
  if (kind() === "item") one("[data-edit]", page()).click();
  else naming(true);
}

function switch_theme() {
  const root = document.documentElement;
  const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
  remembered("theme", root.dataset.theme);
}
