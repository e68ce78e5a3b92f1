// Numbers, times and names as people read them.

// A score with its sign: 1 is "+1", -0.5 is "−0.50", 1/3 is "+0.33", and what rounds to nothing is "0".
export function signed(value, digits = 2) {
  const shown = plain(Math.abs(value), digits);
  if (shown === "0") return "0";
  return (value < 0 ? "−" : "+") + shown;
}

// A number with so many decimals, or none where it is whole: 0.5 is "0.50", 2 is "2", 1e-9 is "0".
export function plain(value, digits = 2) {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  if (Math.abs(value) >= 1e7) return exponential(value);
  const fixed = value.toFixed(digits);
  return (Number.isInteger(Number(fixed)) ? String(Math.trunc(Number(fixed)) || 0) : fixed).replace("-", "−");
}

function exponential(value) {
  return value.toExponential(1).replaceAll("-", "−");
}

// A metric of any size with few digits and no needless zeros: 0.000123 is "1.2e−4", 0.5 is "0.5", 1234.5 is "1235".
export function shortNumber(value) {
  if (value === null || value === undefined) return "–";
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size >= 1e6) return `${trimmed(value / 1e6, 1)}M`;
  if (size >= 1e4) return `${trimmed(value / 1e3, 1)}k`;
  if (size >= 100) return plain(value, 0);
  if (size >= 1e-3) return trimmed(value, Math.max(2, 2 - Math.floor(Math.log10(size))));
  return exponential(value);
}

function trimmed(value, digits) {
  return plain(value, digits).replace(/(\.\d*?)0+$/, "$1");
}

// How long something took: "5 s", "12.3 min".
export function duration(minutes) {
  return minutes < 1 ? `${Math.ceil(60 * minutes)} s` : `${plain(minutes, 1)} min`;
}

// An estimate with how far its interval reaches, to the farther side: "+0.84 ±0.02".
export function estimate(found, shown = signed) {
  if (!found) return "–";
  if (found.low === null || found.high === null) return shown(found.value);
  const half = Math.max(found.high - found.value, found.value - found.low);
  return `${shown(found.value)}\u00a0±${shown(half).replace("+", "")}`;
}

// The interval in words, for a tooltip.
export function interval(found) {
  if (!found) return "no value";
  if (found.low === null || found.high === null) return "no interval: one trial, or all the same";
  return `95 % interval from ${signed(found.low, 3)} to ${signed(found.high, 3)}`;
}

// Win, draw or loss by the score of one seat beside the others', or by its success where the world states it.
export function verdict({ returns, successes }, seat) {
  if (successes?.length) return successes[seat] ? "win" : "loss";
  const others = returns.filter((_, index) => index !== seat);
  const best = others.length ? Math.max(...others) : 0;
  return returns[seat] > best ? "win" : returns[seat] < best ? "loss" : "draw";
}

// How long ago: "12 s", "5 min", "3 h", "2 days".
export function ago(moment, now = Date.now()) {
  const time = typeof moment === "number" ? moment * 1000 : Date.parse(moment);
  if (Number.isNaN(time)) return "–";
  const seconds = Math.max(0, Math.round((now - time) / 1000));
  if (seconds < 60) return `${seconds} s ago`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ago`;
  if (seconds < 86400) return `${Math.floor(seconds / 3600)} h ago`;
  const days = Math.floor(seconds / 86400);
  return `${days} ${days === 1 ? "day" : "days"} ago`;
}

// "1 trial", "2 trials".
export function count(number, noun) {
  return `${number} ${number === 1 ? noun : `${noun}s`}`;
}

// A seat as people count: 0 is "1st".
export function ordinal(seat) {
  return `${seat + 1}${["st", "nd", "rd"][seat] ?? "th"}`;
}

// A share in percent, without needless digits: 0.0006 is "<0.1 %".
export function percent(share) {
  const value = share * 100;
  if (value > 0 && value < 0.1) return "<0.1 %";
  return `${plain(value, value < 1 || (value > 99 && value < 100) ? 1 : 0)} %`;
}

// A world or opponent spec in parts: "rps(rounds=3)" is {name: "rps", params: {rounds: "3"}}.
export function parseSpec(spec) {
  const [, name, inside, short] = /^([^(:]*)(?:\((.*)\)|:(.*))?$/s.exec(spec) ?? [null, spec];
  const params = {};
  let depth = 0;
  let part = "";
  for (const char of `${inside ?? ""},`) {
    if (char === "," && depth === 0) {
      const at = part.indexOf("=");
      if (at > 0) params[part.slice(0, at).trim()] = part.slice(at + 1).trim();
      part = "";
      continue;
    }
    if ("([".includes(char)) depth += 1;
    if (")]".includes(char)) depth -= 1;
    part += char;
  }
  return { name: name.trim(), params, short: short ?? null };
}

// The name of a player without its settings where these are long: "memory-one(first=1,map=[0,1,2])" is "memory-one".
export function shortName(spec) {
  return spec.length > 20 ? spec.split("(")[0] : spec;
}

// The same for several that must differ: one whose short name is another's too keeps its settings.
export function shortNames(specs) {
  const short = specs.map(shortName);
  return specs.map((spec, index) => (short.filter((each) => each === short[index]).length > 1 ? spec : short[index]));
}

const WORLD_TITLES = {
  rps: "rock-paper-scissors",
  pd: "the prisoner's dilemma",
  pennies: "matching pennies",
  kuhn_poker: "Kuhn poker",
  tic_tac_toe: "tic-tac-toe",
};

// A world as a title: "rock-paper-scissors, 3 rounds", "Kuhn poker".
export function worldTitle(spec) {
  const { name, params } = parseSpec(spec);
  const title = WORLD_TITLES[name] ?? name.replaceAll("_", " ");
  const rounds = params.rounds ? `, ${count(Number(params.rounds), "round")}` : "";
  const rest = Object.entries(params).filter(([key]) => key !== "rounds");
  return title + rounds + (rest.length ? ` (${rest.map(([key, value]) => `${key} ${value}`).join(", ")})` : "");
}
