// Scales and ticks: from numbers to pixels and round values.

// A map from the numbers `low..high` to the pixels `from..to`.
export function scale(low, high, from, to) {
  const span = high - low || 1;
  return (value) => from + ((value - low) / span) * (to - from);
}

// About `wanted` round values within `low..high`.
export function ticks(low, high, wanted) {
  const span = high - low;
  if (!(span > 0)) return [low];
  const raw = span / Math.max(1, wanted);
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((each) => each >= 0.75 * raw);
  const found = [];
  for (let n = Math.ceil(low / step - 1e-9); n * step <= high + span * 1e-9; n += 1) found.push(n * step);
  return found;
}

// The smallest range that holds all values, with a little air; a constant gets a range around it, and what spans less
// than `least` is given that much, so that a trifle does not look like a fall.
export function range(values, least = 0, air = 0.06) {
  let low = Infinity;
  let high = -Infinity;
  for (const value of values) {
    if (value < low) low = value;
    if (value > high) high = value;
  }
  if (low > high) return [0, 1];
  const usual = least || Math.abs(low) || 1;
  if (high - low < (low === high ? usual : least)) {
    const middle = (low + high) / 2;
    [low, high] = [middle - usual / 2, middle + usual / 2];
  }
  const more = (high - low) * air;
  return [low - more, high + more];
}

// The index of the entry of an ascending list that is nearest to a value.
export function nearest(sorted, value) {
  let low = 0;
  let high = sorted.length - 1;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (sorted[middle] < value) low = middle;
    else high = middle;
  }
  return high >= 0 && Math.abs(sorted[high] - value) < Math.abs(sorted[low] - value) ? high : low;
}
