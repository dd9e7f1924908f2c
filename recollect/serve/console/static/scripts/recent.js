// The searches that a person made in this browser.

import { loadSetting, saveSetting } from "./dom.js";

const NAME = "recent-searches";
const MAX_SEARCHES = 8;

export function recentSearches() {
  try {
    const searches = JSON.parse(loadSetting(NAME) ?? "[]");
    return Array.isArray(searches) ? searches.filter((text) => typeof text === "string") : [];
  } catch {
    return [];
  }
}

export function rememberSearch(text) {
  const query = text.trim();
  if (!query) return;
  const others = recentSearches().filter((other) => other !== query);
  saveSetting(NAME, JSON.stringify([query, ...others].slice(0, MAX_SEARCHES)));
}
