// Notes, media, characters and prompts: reading long ones, going to a second, and writing.

import { all, fragment, one } from "./dom.js";
import { choose } from "./filters.js";
import { kind, on_page, page } from "./going.js";
import { first_lit, light_up } from "./highlight.js";
import { say } from "./toast.js";

const PARTS = 100; // that are asked for at most on the way to a second
let sending = false;

export function start_knowledge() {
  on_page(open);
  addEventListener("hashchange", () => kind() === "item" && go_to_place());
  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-more], [data-choose], [data-discard], .sheet a[download]");
    if (!button) return;
    if (button.dataset.more) more(button);
    else if (button.dataset.choose) {
      event.preventDefault();
      choose(button.dataset.choose, button.dataset.value);
    } else if (button.matches("[data-discard]")) drop_draft();
    else button.closest(".menu").open = false;
  });
  document.addEventListener("input", (event) => {
    if (event.target.closest("[data-writing]")) keep_draft();
  });
  document.addEventListener("submit", (event) => {
    if (!event.target.matches("[data-writing]")) return;
    sending = true;
    drop_draft();
    one("[data-save]", event.target).disabled = true;
  });
  document.addEventListener("keydown", (event) => {
    const form = event.target.closest?.("[data-writing]");
    if (!form || event.isComposing || !(event.ctrlKey || event.metaKey) || !["Enter", "s"].includes(event.key)) return;
    event.preventDefault();
    form.requestSubmit();
  });
  addEventListener("beforeunload", (event) => {
    if (!sending && form() && draft()) event.preventDefault();
  });
  addEventListener("pageshow", (event) => {
    if (!event.persisted) return;
    sending = false;
    for (const button of all("[data-save]")) button.disabled = false;
  });
}

function open() {
  if (kind() === "item") {
    light_up(page(), words());
    go_to_place();
  }
  if (kind() === "writing") take_up_draft();
}

const words = () => page().dataset.words.split(" ").filter(Boolean);

// -- reading ---

/** To the second, the field or the part that the address names; else to the first word that was searched for. */
async function go_to_place() {
  const root = page();
  const named = decodeURIComponent(location.hash.slice(1));
  const second = /^t=(\d+(?:\.\d+)?)/.exec(named);
  for (const old of all("[data-here]", root)) old.removeAttribute("data-here");
  let place = null;
  if (second) place = await said_at(root, Number(second[1]));
  else if (named) place = document.getElementById(named);
  else if (root.dataset.query) {
    const part = new URLSearchParams(location.search).get("p");
    const wanted = part ? document.getElementById(`p=${part}`) : null;
    place = (wanted && first_lit(wanted)) ?? wanted ?? first_lit(root);
    if (place?.closest("details")) place.closest("details").open = true;
  }
  if (!place || root !== page()) return;
  if (second) place.setAttribute("data-here", "");
  place.scrollIntoView({ block: named && !second ? "start" : "center" });
}

/** What is said at a second, wherever in a long transcript that is. */
async function said_at(root, second) {
  for (let asked = 0; asked < PARTS; asked++) {
    const said = all("[data-t]", root);
    const place = said.findLast((one_cue) => Number(one_cue.dataset.t) < second + 1) ?? said[0];
    const button = one("[data-more='after']", root);
    if (!button || place !== said.at(-1)) return place;
    if (!(await more(button))) return place;
  }
  return null;
}

async function more(button) {
  const root = page();
  const given = new URLSearchParams({ source: root.dataset.source, id: root.dataset.id, p: button.dataset.p });
  button.disabled = true;
  try {
    const made = one("[data-part]", await fragment(`/console/part?${given}`));
    light_up(made, words());
    if (button.dataset.more === "after") {
      button.closest("[data-part]").after(made);
      button.parentElement.remove();
      return true;
    }
    const main = one("#main");
    const height = main.scrollHeight;
    one("[data-more='after']", made)?.parentElement.remove();
    button.parentElement.after(made);
    if (Number(made.dataset.start) > 0) {
      button.dataset.p = Number(made.dataset.start) - 1;
      button.disabled = false;
    } else button.parentElement.remove();
    main.scrollTop += main.scrollHeight - height;
    return true;
  } catch (error) {
    button.disabled = false;
    say(error.message);
    return false;
  }
}

// -- writing: what is not saved yet is kept for as long as the window is open ---

const form = () => (kind() === "writing" ? one("[data-writing]") : null);
const name_of = (paper) => `recollect-draft ${paper.dataset.draft} ${paper.dataset.version}`;

function draft() {
  try {
    return sessionStorage.getItem(name_of(form()));
  } catch {
    return null; // storage may be switched off
  }
}

function keep_draft() {
  const written = [...new FormData(form())].filter(([name]) => !name.startsWith("was:") && name !== "version");
  try {
    sessionStorage.setItem(name_of(form()), JSON.stringify(written));
  } catch {
    // full or switched off
  }
}

function drop_draft() {
  try {
    if (form()) sessionStorage.removeItem(name_of(form()));
  } catch {
    // switched off
  }
}

function take_up_draft() {
  const paper = form();
  sending = false;
  if ("again" in paper.dataset) return keep_draft();
  const kept = JSON.parse(draft() ?? "null");
  if (!kept) return;
  const before = all("textarea, input:not([type='hidden'])", paper).map((field) => [field, field.value]);
  const seen = new Map();
  for (const [name, value] of kept) {
    const at = seen.get(name) ?? 0;
    seen.set(name, at + 1);
    const field = all(`[name="${CSS.escape(name)}"]`, paper)[at];
    if (field) field.value = value;
  }
  say("What you wrote here before is back.", {
    label: "Discard it",
    act: async () => {
      drop_draft();
      for (const [field, value] of before) field.value = value;
    },
  });
}
