// Every visible text whose contrast with what lies behind it is below WCAG's AA: 4.5, or 3 for large letters.
() => {
  const parse = (text) => {
    const numbers = (text.match(/-?[\d.]+(?:e-?\d+)?/g) ?? []).map(Number);
    const scale = text.startsWith("color(srgb") ? 255 : 1;
    const [r, g, b, a = 1] = numbers;
    return { r: r * scale, g: g * scale, b: b * scale, a };
  };
  const over = (top, below) => {
    const mix = (name) => top[name] * top.a + below[name] * (1 - top.a);
    return { r: mix("r"), g: mix("g"), b: mix("b"), a: 1 };
  };
  const backOf = (element) => {
    const layers = [];
    for (let each = element; each; each = each.parentElement)
      layers.push(parse(getComputedStyle(each).backgroundColor));
    return layers.reverse().reduce((below, layer) => over(layer, below), { r: 255, g: 255, b: 255, a: 1 });
  };
  const light = ({ r, g, b }) => {
    const [x, y, z] = [r, g, b]
      .map((value) => value / 255)
      .map((v) => (v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
    return 0.2126 * x + 0.7152 * y + 0.0722 * z;
  };
  const contrast = (one, other) => {
    const [high, low] = [light(one), light(other)].sort((a, b) => b - a);
    return (high + 0.05) / (low + 0.05);
  };
  const faint = new Set();
  for (const element of document.querySelectorAll("body *")) {
    const hasText = [...element.childNodes].some((node) => node.nodeType === Node.TEXT_NODE && node.textContent.trim());
    if (!hasText || element.closest("svg") || element.matches(":disabled, :disabled *, .skip, noscript, option"))
      continue;
    if (!element.checkVisibility() || !element.getClientRects().length) continue;
    const style = getComputedStyle(element);
    const back = backOf(element);
    const size = parseFloat(style.fontSize);
    const needed = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700) ? 3 : 4.5;
    const found = contrast(over(parse(style.color), back), back);
    if (found < needed - 0.01)
      faint.add(`${element.tagName}.${element.className} ${found.toFixed(2)}: ${element.textContent.slice(0, 40)}`);
  }
  return [...faint];
};
