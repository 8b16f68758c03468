// Runs before the first paint, so that a chosen theme never flashes. A file, because the
// content security policy allows no inline script.
(function () {
  try {
    var chosen = localStorage.getItem("arl.theme");
    if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
  } catch (error) {
    void error; // storage may be off: the system's theme is used
  }
})();
