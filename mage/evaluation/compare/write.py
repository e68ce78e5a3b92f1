"""A comparison in its directory: tables as Markdown, CSV and LaTeX, plots and sources."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from mage.errors import RecordError
from mage.evaluation.compare.comparison import Comparison
from mage.evaluation.compare.markup import MarkedTable, escape_markdown, latex, markdown
from mage.evaluation.compare.plots import write_figures
from mage.evaluation.compare.sources import ComparisonInputs, Source
from mage.evaluation.compare.tables import all_tables, as_csv, notes
from mage.evaluation.suite.report import command_line, installed_versions, machine_name
from mage.files import BAD_JSON, write_atomically
from mage.plot_style import check_matplotlib

SOURCES, PLOTS = "sources.json", "plots"


class Sources(msgspec.Struct, frozen=True):
    """What a comparison was made of, by which command, and the files that hold it."""

    command: str
    versions: Mapping[str, str]
    machine: str
    sources: tuple[Source, ...]
    left_out: tuple[str, ...]
    """Runs of sweeps that are not evaluated yet."""
    files: tuple[str, ...]


def write_comparison(comparison: Comparison, inputs: ComparisonInputs, folder: Path, *, plots: bool) -> None:
    """Tables, pictures and sources; an earlier comparison in the directory is replaced."""
    if plots:
        check_matplotlib()
    told = _described(inputs)
    sheets = all_tables(comparison, inputs.crossplays)
    try:
        _clear(folder)
        (folder / PLOTS).mkdir(parents=True, exist_ok=True)
        files = {
            "table.md": _as_markdown(sheets, notes(comparison), told),
            "table.csv": as_csv(comparison, inputs.crossplays),
            "table.tex": _as_latex(sheets, notes(comparison), told),
        }
        for name, content in files.items():
            write_atomically(folder / name, content.encode())
        written = write_figures(comparison, inputs.crossplays, folder / PLOTS, command_line()) if plots else []
        names = (*files, *(str(path.relative_to(folder)) for path in written))
        made = msgspec.structs.replace(told, files=names)
        write_atomically(folder / SOURCES, msgspec.json.format(msgspec.json.encode(made), indent=1) + b"\n")
    except OSError as error:
        raise RecordError(f"cannot write to {folder}: {error.strerror or error}") from None


def _clear(folder: Path) -> None:
    """Delete what an earlier comparison wrote; a directory with anything else is left alone."""
    if not folder.exists() or not any(folder.iterdir()):
        return
    try:
        earlier = msgspec.json.decode((folder / SOURCES).read_bytes(), type=Sources)
    except (OSError, *BAD_JSON):
        raise RecordError(f"{folder} is not empty and holds no comparison; name a new directory") from None
    for name in earlier.files:
        path = folder / name
        if path.resolve().is_relative_to(folder.resolve()):
            path.unlink(missing_ok=True)


def _described(inputs: ComparisonInputs) -> Sources:
    return Sources(command_line(), installed_versions(), machine_name(), inputs.sources, inputs.left_out, ())


def _lines(told: Sources) -> list[str]:
    """What was compared and by which commands it was made, in lines."""
    versions = ", ".join(f"{name} {version}" for name, version in told.versions.items())
    lines = [f"{told.command} ({versions})"]
    for source in told.sources:
        seed = "" if source.seed is None else f", seed {source.seed}"
        commit = source.versions.get("commit", source.versions.get("mage", "?"))
        lines.append(f"{source.method}{seed}, step {source.step}, mage {commit}: {source.command} ({source.path})")
    return lines


def _as_markdown(sheets: Sequence[MarkedTable], remarks: Sequence[str], told: Sources) -> str:
    def listed(lines: Sequence[str]) -> str:
        return "".join(f"- {escape_markdown(line)}\n" for line in lines)

    return "\n".join(["# Comparison\n", *map(markdown, sheets), listed(remarks), "## Sources\n", listed(_lines(told))])


def _as_latex(sheets: Sequence[MarkedTable], remarks: Sequence[str], told: Sources) -> str:
    comments = ["\\usepackage{booktabs}", *remarks, *_lines(told)]
    return "\n".join(["".join(f"% {' '.join(line.split())}\n" for line in comments), *map(latex, sheets)])
