// The colours of styles/tokens.css as charts want them: resolved, since a canvas knows no variables.

export interface Tokens {
  text: string;
  soft: string;
  line: string;
  card: string;
  accent: string;
  series: string[];
  /** From worst to best. */
  scale: [string, string, string];
  font: string;
}

const SERIES = [1, 2, 3, 4, 5, 6, 7, 8];

/** What the theme of this moment makes of them. */
export function readTokens(): Tokens {
  const probe = document.createElement("i");
  document.body.append(probe);
  const color = (name: string) => {
    probe.style.color = `var(--${name})`;
    return getComputedStyle(probe).color;
  };
  const read: Tokens = {
    text: color("text"),
    soft: color("soft"),
    line: color("line"),
    card: color("card"),
    accent: color("accent"),
    series: SERIES.map((index) => color(`series-${index}`)),
    scale: [color("scale-low"), color("scale-middle"), color("scale-high")],
    font: getComputedStyle(document.body).fontFamily,
  };
  probe.remove();
  return read;
}
