// Light or dark: the system's choice (which styles/tokens.css follows by itself) unless the user made one.

type Choice = "system" | "light" | "dark";

function stored(): Choice {
  const choice = localStorage.getItem("theme");
  return choice === "light" || choice === "dark" ? choice : "system";
}

class Theme {
  #choice = $state<Choice>(stored());
  #system = $state(matchMedia("(prefers-color-scheme: dark)").matches);

  constructor() {
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", (event) => (this.#system = event.matches));
    this.#apply();
  }

  get dark(): boolean {
    return this.#choice === "system" ? this.#system : this.#choice === "dark";
  }

  /** Back to the system's choice where that is the one wanted. */
  toggle() {
    const wanted = this.dark ? "light" : "dark";
    this.#choice = (wanted === "dark") === this.#system ? "system" : wanted;
    localStorage.setItem("theme", this.#choice);
    this.#apply();
  }

  // At once, not in an effect: charts read the colours in theirs.
  #apply() {
    if (this.#choice === "system") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = this.#choice;
  }
}

export const theme = new Theme();
