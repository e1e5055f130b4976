"""
Which criterion?
================

*Demographic parity, equal opportunity, equalized odds: who gains and who loses under
each?*

A school district places pupils in one of three tracks. It uses a test and the marks of
the teacher. The test is in the language of the school, and it underestimates pupils who
speak another language at home. The data are synthetic. We know which track is right for
every pupil, and we can ask the same pupils under every criterion.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression

from optfair import Constraint, OptFairPost

TRACKS, GROUPS = (
    np.array(["basic", "middle", "upper"]),
    ["school", "related", "distant"],
)


def draw_pupils(n, seed):
    """Return test, marks and years, the right track, and the language at home."""
    rng = np.random.default_rng(seed)
    language = rng.choice(3, n, p=[0.6, 0.25, 0.15])
    ability = rng.standard_normal(n) - np.array([0, 0.2, 0.4])[language]
    test = ability - np.array([0, 0.4, 0.9])[language] + 0.5 * rng.standard_normal(n)
    marks = ability + 0.8 * rng.standard_normal(n)
    years = rng.standard_normal(n) - np.array([0, 1.5, 3.0])[language]  # at the school
    track = np.digitize(ability + 0.4 * rng.standard_normal(n), [-0.6, 0.6])
    return np.c_[test, marks, years], TRACKS[track], np.array(GROUPS)[language]


X, y, language = draw_pupils(20_000, 0)
steps = np.abs(np.subtract.outer([0, 1, 2], [0, 1, 2]))  # the tracks are ordered
fair = OptFairPost(
    LogisticRegression(), criterion="dp", tolerance=0.01, costs=steps, random_state=0
)
fair = fair.fit(X, y, sensitive_features=language)

# %%
# Ask the same pupils five times
# ------------------------------
# The models are fitted once. For another criterion only the rule is solved again, which
# takes a fraction of a second.

X, y, language = draw_pupils(60_000, 1)  # new pupils
rules = {"no criterion": fair.with_tolerance(1.0), "parity (dp)": fair}
rules["opportunity (eop)"] = fair.with_criterion(
    Constraint("eop", 0.01, outcomes=["upper"])
)
rules["odds (eo)"] = fair.with_criterion("eo")
rules["accuracy (oae)"] = fair.with_criterion("oae")
placed = pd.DataFrame({name: rule.predict(X) for name, rule in rules.items()})

upper = placed == "upper"
panels = {
    "upper track": upper,
    "... if right for it": upper[y == "upper"],
    "... if not right for it": upper[y != "upper"],
    "in the right track": placed.eq(y, axis=0),
}
figure, grid = plt.subplots(2, 2, sharey=True, figsize=(4.8, 4.8), layout="constrained")
for axes, (title, hits) in zip(grid.flat, panels.items(), strict=True):
    rates = hits.groupby(language[hits.index]).mean()
    axes.hlines(range(5), rates.min(), rates.max(), color="0.75", linewidth=4)
    for group, marker in zip(GROUPS, "osD", strict=True):
        axes.plot(rates.loc[group], range(5), marker, markersize=6, label=group)
    axes.set(yticks=range(5), yticklabels=rules, ylim=(4.5, -0.5))
    axes.set_title(title, fontsize=9)
legend = {"ncols": 3, "loc": "outside lower center", "title": "language at home"}
figure.legend(*axes.get_legend_handles_labels(), **legend)

# %%
# Each criterion makes its own gap small. Parity closes the first, and opens others: it
# now favours pupils of distant languages in the second and third panel. Equal
# opportunity was asked for the upper track only, and closes the second. Equalized odds
# close the second and the third. Equal accuracy was there from the beginning. It does
# not see that the mistakes of the plain rule differ: some pupils are placed too high,
# others too low.
#
# Who gains and who loses
# -----------------------
# The table counts, per thousand pupils of each language, how many win or lose a place
# in the upper track beside the plain rule. In brackets: how many of them are right for
# it.

changes = {}
for name in list(rules)[1:]:
    wins = upper[name] & ~upper["no criterion"]
    losses = upper["no criterion"] & ~upper[name]
    for word, moved in [("win", wins), ("lose", losses)]:
        all_moved = moved.groupby(language).mean().mul(1000)
        right = (moved & (y == "upper")).groupby(language).mean().mul(1000)
        changes[name, word] = [f"{all_moved[g]:.0f} ({right[g]:.0f})" for g in GROUPS]
pd.DataFrame(changes, index=GROUPS).transpose()

# %%
# What to take away
# -----------------
# - A criterion decides who gains and who loses. Try several on the same people before
#   you choose one: the models need no new fit.
# - Parity moves places to groups with lower rates, whatever the reason for these rates
#   is. Opportunity and odds move them to people who are right for them.
# - Equal accuracy can hide unequal mistakes. Look at the kinds of mistakes too.
#
# Read more: :doc:`/guide/criterion`, :doc:`/theory/glossary`.
