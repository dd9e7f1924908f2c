// Runs before the first paint: apply the theme that the person chose. The default is the system's.
(() => {
  try {
    const theme = localStorage.getItem("recollect-theme");
    if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
  } catch {
    // Storage is disabled.
  }
})();
