// How a report can be made again: command, seed, versions, machine.
import { h } from "../dom.js";
import { facts } from "../parts.js";

export function provenance(report) {
  if (!report.command) return null;
  const versions = Object.entries(report.versions ?? {})
    .map(([name, version]) => `${name} ${version}`)
    .join(", ");
  const agent = report.eval_agent
    ? Object.entries(report.eval_agent)
        .map(([name, value]) => `${name} ${value}`)
        .join(", ")
    : null;
  return h(
    "details",
    { class: "card" },
    h("summary", {}, "How to make this report again"),
    facts([
      ["command", h("code", {}, report.command)],
      ["evaluated agent", agent],
      ["weights after", report.step === undefined ? null : `step ${report.step}`],
      ["seed of the tasks", report.seed],
      ["versions", versions],
      ["machine", report.machine],
    ]),
  );
}
