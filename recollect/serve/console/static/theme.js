// Before the first paint: light or dark as the person chose, else as the system says.
(() => {
  try {
    const chosen = localStorage.getItem("recollect-theme");
    if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
  } catch {
    // storage may be switched off; then the system's choice holds
  }
})();
