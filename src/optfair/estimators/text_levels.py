"""Say which texts a fitted classifier knows, and put into words what new people have that it does not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from optfair.inputs.encoder import TableEncoder
from optfair.inputs.schema import NUMBERS, TEXTS
from optfair.posteriors.preprocessing import fitted_steps


@dataclass(frozen=True)
class TextLevels:
    """The texts of a column that an encoder was fitted on, rare ones too. had_gaps : whether some were missing."""

    name: str
    texts: tuple[str, ...]
    had_gaps: bool


def fitted_encoder(model: Any) -> TableEncoder | None:
    """Return the encoder that a pipeline of a fitted model begins with, of the classes or the groups, or None."""
    posterior, mixture = getattr(model, "posterior_model_", None), getattr(model, "mixture_", None)
    classes, groups = getattr(posterior, "classes", posterior), getattr(posterior, "groups", None)
    pipelines = (getattr(classes, "model", None), getattr(groups, "transformer", None))
    for pipeline in (*pipelines, getattr(mixture, "transformer", None)):
        encoder = fitted_steps(pipeline)[0]
        if isinstance(encoder, TableEncoder):
            return encoder
    return None


def text_levels(encoder: TableEncoder | None) -> list[TextLevels]:
    """Return the texts of each column that an encoder reads as texts; those of none are none."""
    if encoder is None or not encoder.texts_:
        return []
    one_hot = encoder.transformer_.named_transformers_[TEXTS]
    return [
        TextLevels(name, tuple(level for level in levels if isinstance(level, str)), any(map(_is_gap, levels)))
        for name, levels in zip(one_hot.feature_names_in_.tolist(), one_hot.categories_, strict=True)
    ]


def gap_columns(encoder: TableEncoder) -> list[str]:
    """Return the columns that an encoder reads and that had gaps when it was fitted."""
    names = [levels.name for levels in text_levels(encoder) if levels.had_gaps]
    if encoder.numbers_:
        indicator = encoder.transformer_.named_transformers_[NUMBERS].indicator_
        names += [encoder.numbers_[k] for k in ([] if indicator is None else indicator.features_.tolist())]
    return names


def gap_note(subject: str, share: str) -> str:
    """Return a note on values that are missing where none was before. share : such as "3 of 5 rows"."""
    return f"{subject}: is missing in {share}; it was never missing when the model was fitted."


def unseen_note(subject: str, share: str, example: tuple[str, str], hint: str = "") -> str:
    """Return a note on texts that a model has not seen. example : one of them, and where it stands."""
    text, place = example
    return (
        f"{subject}: a text that the model has not seen in {share}, such as {text!r} ({place}); it is treated as a "
        f"rare text{hint}."
    )


def _is_gap(level: Any) -> bool:
    return level is None or level != level
