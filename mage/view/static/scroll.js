// Boxes that scroll sideways, and say so.
import { h } from "./dom.js";

// A box for content that may be wider than the window: arrows show where it goes on, and the keyboard can scroll it.
export function scroller(...children) {
  const inner = h("div", { class: "scroll" }, children);
  const outer = h("div", { class: "scroller" }, inner);
  const look = () => {
    const goesLeft = inner.scrollLeft > 1;
    const goesRight = inner.scrollLeft + inner.clientWidth < inner.scrollWidth - 1;
    outer.classList.toggle("more-left", goesLeft);
    outer.classList.toggle("more-right", goesRight);
    if (goesLeft || goesRight) inner.tabIndex = 0;
    else inner.removeAttribute("tabindex");
  };
  inner.addEventListener("scroll", look, { passive: true });
  const sizes = new ResizeObserver(look);
  for (const each of [inner, ...inner.children]) sizes.observe(each);
  return outer;
}
