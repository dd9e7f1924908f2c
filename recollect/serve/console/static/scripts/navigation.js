// Go from page to page without reloading the frame. Reload, back and new tabs keep working.

import { fetchFragment, find, findAll, isAborted, saveSetting } from "./dom.js";
import { hasFilters, readFilters, withFilters } from "./filters.js";
import { listedKind, markCurrent, refreshList, switchKind } from "./sidebar.js";
import { showToast } from "./toast.js";

const main = find("#main");
const searchInput = find("#q");
const listeners = [];
const placeListeners = [];
let pendingRequest = null;
let updates = new AbortController(); // background requests for the current page
let visits = 0;
let currentAddress = "";

export const page = () => find("#page");
export const pageName = () => page()?.dataset.page ?? "";

/** Call a function whenever a page is shown. */
export const onPage = (listener) => listeners.push(listener);

/** Say where a person is in the page: `read` when it is left, `restore` when going back to it. */
export const keepPlace = (read, restore) => placeListeners.push({ read, restore });

const isConsolePath = (path) =>
  ["/", "/activity", "/imports", "/settings"].includes(path) || path.startsWith("/c/") || path.startsWith("/knowledge/");

/** The kind that the filters of a search belong to; empty for other pages, and without filters. */
function filteredKind(address) {
  const { pathname, searchParams } = new URL(address, location.origin);
  if (pathname !== "/" || !searchParams.get("q") || !hasFilters(address)) return "";
  const kind = searchParams.get("kind") ?? "all";
  const tab = kind === "all" ? "conversations" : kind;
  return find(`[data-tab="${CSS.escape(tab)}"]`) ? tab : "";
}

/** Whether a URL shows another kind than the sidebar. The filters do not apply to it then. */
function isOtherKind(address) {
  const url = new URL(address, location.origin);
  if (url.searchParams.get("q") && url.pathname === "/") {
    const kind = filteredKind(address);
    return kind !== "" && kind !== listedKind();
  }
  if (url.pathname.startsWith("/knowledge/")) return url.pathname.split("/")[2] !== listedKind();
  return (url.pathname === "/" || url.pathname.startsWith("/c/")) && listedKind() !== "conversations";
}

/** Show the page at a URL. Returns whether it could be loaded. */
export async function goTo(address, { history: historyMode = "push", focus = true, place = {} } = {}) {
  let target = address;
  if (historyMode !== "none" && !isOtherKind(address)) target = withFilters(address);
  pendingRequest?.abort();
  const controller = (pendingRequest = new AbortController());
  visits += 1;
  let previousPlace = {};
  main.setAttribute("aria-busy", "true");
  try {
    const fragment = await fetchFragment(target, { part: "main", signal: controller.signal });
    previousPlace = readPlace();
    main.replaceChildren(fragment);
    main.scrollTop = 0;
  } catch (error) {
    if (!isAborted(error)) showToast(error.message);
    return false;
  } finally {
    if (pendingRequest === controller) {
      pendingRequest = null;
      main.removeAttribute("aria-busy");
    }
  }
  const isNoteLink = new URL(target, location.origin).searchParams.has("link");
  if (isNoteLink && page()?.dataset.url) target = page().dataset.url;
  if (historyMode === "push") {
    history.replaceState(previousPlace, "");
    history.pushState(null, "", target);
  }
  if (historyMode === "replace") history.replaceState(null, "", target);
  toggleDrawer(false);
  if (document.activeElement !== searchInput) showQuery(target);
  showPage();
  await restorePlace(place);
  if (focus && !main.contains(document.activeElement)) {
    const element = find("[autofocus]", main) ?? find("h1[tabindex]", main) ?? main;
    element.focus({ preventScroll: true });
  }
  return true;
}

function readPlace() {
  const place = { scrollTop: main.scrollTop };
  for (const { read } of placeListeners) Object.assign(place, read());
  return place;
}

async function restorePlace(place) {
  const visit = visits;
  for (const { restore } of placeListeners) await restore(place);
  if (place.scrollTop && visit === visits) main.scrollTop = place.scrollTop;
}

/** Show the query of a URL in the search box. */
function showQuery(address) {
  searchInput.value = new URL(address, location.origin).searchParams.get("q") ?? "";
}

/** The signal that ends background requests for the current page. */
export const updateSignal = () => updates.signal;

/** Stop updating the current page, because it is about to be deleted. */
export function stopUpdates() {
  page().dataset.leaving = "";
  updates.abort();
  updates = new AbortController();
}

/** Reload the current page, unless the person is leaving it or using it. */
export async function reloadPage() {
  const visit = visits;
  if (pendingRequest) return;
  const address = location.pathname + location.search;
  const fragment = await fetchFragment(address, { part: "main", signal: updateSignal() });
  const newPage = fragment.firstElementChild;
  if (newPage.isEqualNode(page())) return;
  if (page().dataset.version && page().dataset.version === newPage.dataset.version) return;
  if (visit !== visits || (main.contains(document.activeElement) && main !== document.activeElement)) return;
  const scrollTop = main.scrollTop;
  main.replaceChildren(fragment);
  showPage();
  main.scrollTop = scrollTop;
}

/** Update everything that depends on the current page. */
export function showPage() {
  document.title = page()?.dataset.title ?? "Recollect";
  currentAddress = location.pathname + location.search;
  markCurrent(page()?.dataset.id ?? "");
  const kind = page()?.dataset.kind ?? filteredKind(currentAddress);
  if (kind) switchKind(kind, currentAddress);
  for (const link of findAll("[data-page-link]")) {
    if (link.dataset.pageLink === pageName()) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  for (const listener of listeners) listener();
}

/** Show or hide the sidebar on wide screens. The choice is remembered. */
export function toggleSidebar() {
  const root = document.documentElement;
  root.toggleAttribute("data-collapsed");
  saveSetting("sidebar", root.hasAttribute("data-collapsed") ? "collapsed" : "open");
  showSidebarState();
}

function showSidebarState() {
  const isOpen = !document.documentElement.hasAttribute("data-collapsed");
  find("button[data-command='collapse']").setAttribute("aria-expanded", String(isOpen));
}

/** Show or hide the sidebar on small screens. */
export function toggleDrawer(open) {
  if (open) {
    document.documentElement.removeAttribute("data-collapsed");
    showSidebarState();
  }
  document.body.toggleAttribute("data-drawer", open);
  find("button[data-command='drawer']").setAttribute("aria-expanded", String(open));
  find(".backdrop").hidden = !open;
}

export function startNavigation() {
  showSidebarState();
  document.addEventListener("click", (event) => {
    const link = event.target.closest("a[href]");
    if (!link || event.defaultPrevented || event.button) return;
    if (event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    if (link.origin !== location.origin || link.target || link.hasAttribute("download")) return;
    if (!isConsolePath(link.pathname)) return;
    if (link.hash && link.pathname === location.pathname) return;
    event.preventDefault();
    follow(link.getAttribute("href"));
  });
  addEventListener("popstate", (event) => {
    const address = location.pathname + location.search;
    showQuery(address);
    if (address === currentAddress && !event.state) return; // another anchor on the same page
    if (!isOtherKind(address) && readFilters(address)) refreshList({ fromTop: true });
    goTo(address, { history: "none", focus: false, place: event.state ?? {} });
  });
}

/** Go to a URL like a click on a link does. */
export function follow(address) {
  const changesFilters = !isOtherKind(address) && setsFilter(address) && readFilters(address);
  if (changesFilters) refreshList({ fromTop: true });
  return goTo(address);
}

/** Links may set a filter. All other links keep the active filters. */
function setsFilter(address) {
  const parameters = new URL(address, location.origin).searchParams;
  return ["source", "project", "tag", "type"].some((name) => parameters.has(name));
}
