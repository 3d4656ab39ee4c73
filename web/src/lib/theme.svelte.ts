// Light or dark: the system's choice unless the user made one.

type Choice = "system" | "light" | "dark";

function stored(): Choice {
  const choice = localStorage.getItem("theme");
  return choice === "light" || choice === "dark" ? choice : "system";
}

class Theme {
  choice = $state<Choice>(stored());
  #system = $state(matchMedia("(prefers-color-scheme: dark)").matches);

  constructor() {
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", (event) => (this.#system = event.matches));
  }

  get dark(): boolean {
    return this.choice === "system" ? this.#system : this.choice === "dark";
  }

  toggle() {
    this.choice = this.dark ? "light" : "dark";
    localStorage.setItem("theme", this.choice);
  }
}

export const theme = new Theme();
