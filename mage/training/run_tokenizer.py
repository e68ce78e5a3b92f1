"""The tokenizer that a run keeps: found again when the run goes on, and written anew where it is missing or damaged.

A run keeps its tokenizer, because one that is made again has other ids where the words of a world have changed.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from mage.files import BAD_JSON, write_folder
from mage.models.load import LoadedModel
from mage.runs.store import TOKENIZER
from mage.training.checkpoint import CHECKPOINTS, checkpoints

_FILES = ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja")
_NEEDED = _FILES[:2]


def stored_tokenizer(folder: Path) -> Path | None:
    """The directory of the tokenizer that a run was made with; None where no model was loaded for it yet.

    It is that of the run, or of its newest checkpoint where the run's own is not the same.
    """
    found = (folder / TOKENIZER, *reversed(checkpoints(folder / CHECKPOINTS)))
    return next((path for path in found if _is_whole(path) and _is_same(path, found[1:2])), None)


def keep_tokenizer(folder: Path, loaded: LoadedModel) -> bool:
    """Write the tokenizer into a run that has none, or a damaged one; whether it did. The viewer reads it there."""
    own = folder / TOKENIZER
    if stored_tokenizer(folder) == own:
        return False
    write_folder(own, loaded.tokenizer.save_pretrained)
    return True


def _is_whole(folder: Path) -> bool:
    try:
        for name in _NEEDED:
            msgspec.json.decode((folder / name).read_bytes())
    except (OSError, *BAD_JSON):
        return False
    return True


def _is_same(folder: Path, others: tuple[Path, ...]) -> bool:
    """Whether it has the files of the newest checkpoint, where there is one; that was complete when it was renamed."""
    paths = [(folder / name, other / name) for other in others for name in _FILES if (other / name).is_file()]
    return all(own.is_file() and own.read_bytes() == other.read_bytes() for own, other in paths)
