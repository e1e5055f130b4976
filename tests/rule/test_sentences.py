"""Check single sentences about people: when a draw decided, and what "without constraints" is."""

from dataclasses import replace

import numpy as np
import pytest

from optfair import solve


@pytest.fixture(scope="module")
def explanation():
    Z = np.random.default_rng(0).dirichlet(np.ones(6), 200).reshape(-1, 2, 3)
    return solve(Z, "dp", 0.05, temperature=0.3, classes=["low", "mid", "high"], random_state=0).explain(Z[:1])


@pytest.mark.parametrize(
    "probability, decided", [(0.3, True), (0.98, True), (0.9894, True), (0.9896, False), (0.99, False), (1.0, False)]
)
def test_a_draw_that_is_written_as_99_per_cent_did_not_decide(explanation, probability, decided):
    """98.96 % is written as 99.0 %: nobody should read that such a draw decided."""
    table = explanation.table.assign(probability=probability, draw=0.2, draw_low=0.0, draw_high=probability)
    (text,) = replace(explanation, table=table).sentences
    assert ("A draw decided" in text) == decided
    assert ("99.0 %" in text) is False


def test_a_note_tells_the_answer_without_constraints_from_that_of_the_model(explanation):
    assert not any("“Without constraints”" in note for note in explanation.notes)  # of a bare rule there is no model
