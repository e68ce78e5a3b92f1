// What reflections do: the same tasks with an agent's own, with none, and with others in their place.
import { h } from "../dom.js";
import { estimate, plain } from "../format.js";
import { card, estimateCell } from "../parts.js";
import { scoresByEpisode, table } from "./table.js";

const ARMS = [
  ["kept", "its own reflections"],
  ["removed", "none"],
  ["swapped", "those of another trial"],
  ["shortened", "the first words of its own"],
  ["history", "history instead"],
];

export function reflections(report) {
  return report.reports.map((found) => {
    const arms = ARMS.filter(([key]) => found[key]?.length).map(([key, name], index) => ({
      name,
      scores: found[key],
      dashed: index > 0,
    }));
    const gains = [
      ["next_over_removed", "over none"],
      ["next_over_swapped", "over another trial's"],
      ["next_over_shortened", `over their first ${found.words} words`],
      ["next_over_history", "over history"],
    ];
    const rows = gains
      .filter(([key]) => found[key])
      .map(([key, name]) => [h("th", { scope: "row" }, name), estimateCell(found[key])]);
    return card(
      `What reflections do, ${found.split}`,
      h(
        "div",
        { class: "columns two" },
        scoresByEpisode(`Score by episode, ${found.split}`, arms, []),
        h(
          "div",
          {},
          h("h3", {}, "What its own reflections gain after the first episode"),
          table(["", "difference"], rows, "list tight"),
          found.alone ? alone(found.alone) : null,
          found.naming ? h("p", {}, naming(found.naming)) : null,
        ),
      ),
    );
  });
}

// The last episode with the notes as the only memory, and with none.
function alone(found) {
  const rows = [
    ["reader", "with its notes alone"],
    ["blank", "with none"],
    ["reader_over_blank", "difference"],
    ["kept_over_reader", "what else it remembers adds"],
  ].map(([key, name]) => [h("th", { scope: "row" }, name), estimateCell(found[key])]);
  return h("div", {}, h("h3", {}, "The last episode with its notes alone"), table(["", "score"], rows, "list tight"));
}

function naming({ named, by_chance: chance, over_chance: over }) {
  const percent = (each) => `${plain(each.value * 100, 0)} %`;
  const seen = `Reflections name the opponent's kind in ${percent(named)} of cases`;
  return `${seen}; by chance it would be ${percent(chance)}. The difference: ${estimate(over)}.`;
}
