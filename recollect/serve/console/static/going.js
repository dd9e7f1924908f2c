// From page to page without loading the sidebar anew. Addresses stay true: reload, back and new tabs work.

import { all, fragment, given_up, one } from "./dom.js";
import { read_filters, with_filters } from "./filters.js";
import { listed, mark_current, refresh, turn_to } from "./sidebar.js";
import { say } from "./toast.js";

const main = one("#main");
const watchers = [];
let request = null;
let visits = 0;
let here = ""; // the address of what is shown

export const page = () => one("#page");
export const kind = () => page()?.dataset.page ?? "";

/** Call back whenever another page is shown. */
export const on_page = (watcher) => watchers.push(watcher);

const ours = (path) => ["/", "/activity", "/imports"].includes(path) || path.startsWith("/c/") || path.startsWith("/knowledge/");

/** Whether an address is of another kind than the one that is listed; then the filters are not for it. */
function elsewhere(address) {
  const url = new URL(address, location.origin);
  if (url.searchParams.get("q") && url.pathname === "/") return false;
  if (url.pathname.startsWith("/knowledge/")) return url.pathname.split("/")[2] !== listed();
  return (url.pathname === "/" || url.pathname.startsWith("/c/")) && listed() !== "conversations";
}

/** Show the page at an address; whether that came about. */
export async function go(address, { history: how = "push", focus = true, top = 0 } = {}) {
  let target = how === "none" || elsewhere(address) ? address : with_filters(address);
  request?.abort();
  const mine = (request = new AbortController());
  visits += 1;
  let left_at = 0;
  main.setAttribute("aria-busy", "true");
  try {
    const made = await fragment(target, { kind: "main", signal: mine.signal });
    left_at = main.scrollTop;
    main.replaceChildren(made);
    main.scrollTop = 0;
  } catch (error) {
    if (!given_up(error)) say(error.message);
    return false;
  } finally {
    if (request === mine) {
      request = null;
      main.removeAttribute("aria-busy");
    }
  }
  if (page()?.dataset.address && new URL(target, location.origin).searchParams.has("link")) target = page().dataset.address;
  if (how === "push") {
    history.replaceState({ top: left_at }, "");
    history.pushState(null, "", target);
  }
  if (how === "replace") history.replaceState(null, "", target);
  drawer(false);
  shown();
  if (top) main.scrollTop = top;
  if (focus && !main.contains(document.activeElement)) {
    (one("[autofocus]", main) ?? one("h1[tabindex]", main) ?? main).focus({ preventScroll: true });
  }
  return true;
}

/** Show the same page as it is now; not where somebody is about to leave it, or is at work in it. */
export async function renew() {
  const visit = visits;
  if (request) return;
  const made = await fragment(location.pathname + location.search, { kind: "main" });
  if (made.firstElementChild.isEqualNode(page())) return;
  if (page().dataset.version && page().dataset.version === made.firstElementChild.dataset.version) return;
  if (visit !== visits || (main.contains(document.activeElement) && main !== document.activeElement)) return;
  const top = main.scrollTop;
  main.replaceChildren(made);
  shown();
  main.scrollTop = top;
}

/** What has to follow whenever a page is there. */
export function shown() {
  document.title = page()?.dataset.title ?? "Recollect";
  here = location.pathname + location.search;
  mark_current(page()?.dataset.id ?? "");
  if (page()?.dataset.source) turn_to(page().dataset.source, here);
  for (const link of all("[data-page-link]")) {
    if (link.dataset.pageLink === kind()) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  for (const watcher of watchers) watcher();
}

export function drawer(open) {
  document.body.toggleAttribute("data-drawer", open);
  one("button[data-act='drawer']").setAttribute("aria-expanded", String(open));
  one(".veil").hidden = !open;
}

export function start_going() {
  document.addEventListener("click", (event) => {
    const link = event.target.closest("a[href]");
    if (!link || event.defaultPrevented || event.button || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    if (link.origin !== location.origin || link.target || link.hasAttribute("download") || !ours(link.pathname)) return;
    if (link.hash && link.pathname === location.pathname) return;
    event.preventDefault();
    if (!elsewhere(link.href) && read_filters_of(link)) refresh({ top: true });
    go(link.getAttribute("href"));
  });
  addEventListener("popstate", (event) => {
    const address = location.pathname + location.search;
    one("#q").value = location.pathname === "/" ? new URLSearchParams(location.search).get("q") ?? "" : one("#q").value;
    if (address === here && !event.state) return; // only another place on the same page
    if (!elsewhere(address) && read_filters(address)) refresh({ top: true });
    go(address, { history: "none", focus: false, top: event.state?.top ?? 0 });
  });
}

/** A link on the start page may set a filter; all others keep what is set. */
function read_filters_of(link) {
  const given = new URL(link.href).searchParams;
  return ["origin", "namespace", "tag", "type"].some((name) => given.has(name)) ? read_filters(link.href) : false;
}
