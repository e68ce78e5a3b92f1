// Two texts line by line.

const MAX_LINES = 400;

// The lines of both texts in order, each with "same", "gone" (only in the first) or "new" (only in the second).
export function changes(before, after) {
  const a = before.split("\n");
  const b = after.split("\n");
  if (a.length > MAX_LINES || b.length > MAX_LINES) return b.map((line) => ["same", line]);
  const lengths = commonLengths(a, b);
  const found = [];
  let i = 0;
  let j = 0;
  while (i < a.length || j < b.length) {
    if (i < a.length && j < b.length && a[i] === b[j]) {
      found.push(["same", a[i]]);
      i += 1;
      j += 1;
    } else if (i < a.length && (j === b.length || lengths[i + 1][j] >= lengths[i][j + 1])) {
      found.push(["gone", a[i]]);
      i += 1;
    } else {
      found.push(["new", b[j]]);
      j += 1;
    }
  }
  return found;
}

// lengths[i][j]: how many lines a[i:] and b[j:] have in common, in order.
function commonLengths(a, b) {
  const lengths = Array.from({ length: a.length + 1 }, () => new Uint16Array(b.length + 1));
  for (let i = a.length - 1; i >= 0; i -= 1) {
    for (let j = b.length - 1; j >= 0; j -= 1) {
      lengths[i][j] = a[i] === b[j] ? lengths[i + 1][j + 1] + 1 : Math.max(lengths[i + 1][j], lengths[i][j + 1]);
    }
  }
  return lengths;
}
