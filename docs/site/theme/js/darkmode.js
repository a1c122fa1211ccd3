// In place of the theme's own, which sets styles of a highlighter that is not loaded here, and so ends at its first line.
"use strict";

(() => {
  const night = window.matchMedia("(prefers-color-scheme: dark)");
  const toggles = [...document.querySelectorAll("[data-bs-theme-value]")];
  const menu = document.getElementById("theme-menu");
  let chosen = localStorage.getItem("mkdocs-colormode") ?? document.documentElement.getAttribute("data-bs-theme") ?? "auto";

  const show = () => {
    const dark = chosen === "auto" ? night.matches : chosen === "dark";
    document.documentElement.setAttribute("data-bs-theme", dark ? "dark" : "light");
    for (const toggle of toggles) {
      const mine = toggle.getAttribute("data-bs-theme-value") === chosen;
      toggle.setAttribute("aria-pressed", String(mine));
      toggle.lastElementChild.classList.toggle("d-none", !mine);
      if (mine && menu) menu.firstElementChild.setAttribute("class", toggle.firstElementChild.getAttribute("class"));
    }
  };

  for (const toggle of toggles) {
    toggle.addEventListener("click", () => {
      chosen = toggle.getAttribute("data-bs-theme-value");
      localStorage.setItem("mkdocs-colormode", chosen);
      show();
    });
  }
  night.addEventListener("change", show);
  show();
})();
