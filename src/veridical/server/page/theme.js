// Light, dark, or as the system has it; the choice is remembered in this browser.

const NAMES = { auto: "Theme: as the system", light: "Theme: light", dark: "Theme: dark" };

/** Let `button` change the theme: from the system's to the other one, and back. */
export function themeButton(button) {
  let theme = remembered();
  const system = matchMedia("(prefers-color-scheme: dark)");
  const show = () => {
    const dark = theme === "dark" || (theme === "auto" && system.matches);
    document.documentElement.dataset.theme = dark ? "dark" : "light";
    button.setAttribute("aria-label", NAMES[theme]);
    button.title = NAMES[theme];
  };
  button.addEventListener("click", () => {
    const shown = document.documentElement.dataset.theme;
    const opposite = shown === "dark" ? "light" : "dark";
    theme = theme === "auto" ? opposite : system.matches === (opposite === "dark") ? "auto" : opposite;
    try {
      localStorage.setItem("theme", theme);
    } catch {
      // a browser that stores nothing shows the theme all the same
    }
    show();
  });
  system.addEventListener("change", show);
  show();
}

function remembered() {
  try {
    const theme = localStorage.getItem("theme");
    return theme in NAMES ? theme : "auto";
  } catch {
    return "auto";
  }
}
