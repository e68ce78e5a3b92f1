// An evaluation: scores by episode beside their control, exact bounds and limits; opponents, pay-offs, cost and health.
import { DataError, get, runPath } from "../data.js";
import { h, show } from "../dom.js";
import { select } from "../parts.js";
import { toHash } from "../route.js";
import { crossPlay, nashConv } from "../report/world.js";
import { provenance } from "../report/provenance.js";
import { reflections } from "../report/reflections.js";
import { splits } from "../report/splits.js";
import { sweep } from "../report/sweep.js";

export async function evaluationPage({ root, run, parts }) {
  const about = await get(runPath(run));
  const names = about.evaluations ?? [];
  const name = parts[3] ?? names[0];
  if (name === undefined) {
    show(
      root,
      h("h1", {}, "Evaluation"),
      h(
        "div",
        { class: "card" },
        h("p", {}, "This run was not evaluated yet. In a terminal:"),
        h("pre", {}, `mage evaluate ${about.name}`),
      ),
    );
    return {};
  }
  const report = await get(runPath(run, "evaluations", name));
  const pick =
    names.length > 1
      ? select(
          "Report",
          names.map((each) => [each, each]),
          name,
          (value) => (location.hash = toHash(["runs", run, "evaluations", value])),
        )
      : null;
  show(root, h("div", { class: "controls" }, h("h1", {}, "Evaluation"), pick), body(report, about), provenance(report));
  return {};
}

// Which report it is, is told by what it has.
function body(report, about) {
  if (report.reports?.some((each) => each.kept)) return reflections(report);
  if (report.reports)
    return splits(report, (opponent) =>
      about.kind === "evaluate" ? toHash(["runs", about.id, "trials"], { opponent }) : null,
    );
  if (report.found?.cells) return crossPlay(report.found, report.about ?? {});
  if (report.found?.first) return nashConv(report.found);
  if (report.runs) return sweep(report);
  throw new DataError("this report is of a kind that this version cannot show.");
}
