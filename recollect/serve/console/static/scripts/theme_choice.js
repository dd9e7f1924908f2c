// The theme: the system's, light or dark. theme.js applies the choice before the first paint.

import { find, findAll, loadSetting, saveSetting } from "./dom.js";
import { onPage } from "./navigation.js";

const root = document.documentElement;
const systemTheme = () => (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
const chosenTheme = () => root.dataset.theme ?? "system";

function choose(theme) {
  if (theme === "system") delete root.dataset.theme;
  else root.dataset.theme = theme;
  saveSetting("theme", theme);
  showChoice();
}

/** Switch between light and dark. */
export function switchTheme() {
  const theme = root.dataset.theme ?? systemTheme();
  choose(theme === "dark" ? "light" : "dark");
}

function showChoice() {
  for (const input of findAll("[data-theme-choice] input")) input.checked = input.value === chosenTheme();
}

export function startThemeChoice() {
  onPage(showChoice);
  document.addEventListener("change", (event) => {
    if (event.target.closest("[data-theme-choice]")) choose(event.target.value);
  });
  // Another tab may have changed it.
  addEventListener("storage", (event) => {
    if (event.key !== "recollect-theme") return;
    const theme = loadSetting("theme");
    if (theme === "light" || theme === "dark") root.dataset.theme = theme;
    else delete root.dataset.theme;
    if (find("[data-theme-choice]")) showChoice();
  });
}
