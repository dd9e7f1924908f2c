// Runs before the first paint: apply the theme that the person chose, and hide the sidebar if it was
// hidden. The default theme is the system's.
(() => {
  try {
    const theme = localStorage.getItem("recollect-theme");
    if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
    const isCollapsed = localStorage.getItem("recollect-sidebar") === "collapsed";
    document.documentElement.toggleAttribute("data-collapsed", isCollapsed);
  } catch {
    // Storage is disabled.
  }
})();
