"""
Unknown groups
==============

*Half of our customers did not tell us their group. Leave them out, or guess?*

An energy company writes to customers who are behind with a bill. A model chooses one of
three offers: a reminder, instalments, or a talk with an adviser. The shares of the
offers shall not depend on where people were born. Customers may tell the company, and
half of them did. Who tells depends on how much they use the app, and that differs
between the groups. The data are synthetic, so the truth is known.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from optfair import Constraint, OptFairPost, audit
from optfair.metrics import (
    constraint_table,
    group_confusion,
    unknown_group_bounds,
    violation,
)

GROUPS = np.array(["here", "nearby", "overseas"])
OFFERS = np.array(["1 reminder", "2 instalments", "3 adviser"])


def draw_customers(n, seed, shy=0.0):
    """Return features, the right offer, the group, and the group if it was told."""
    rng = np.random.default_rng(seed)
    born = rng.choice(3, n, p=[0.6, 0.25, 0.15])
    app = rng.standard_normal(n) - 0.6 * born
    income = rng.standard_normal(n) - 0.2 * born
    debt = rng.standard_normal(n) + 0.1 * born
    need = debt - 0.6 * income - 0.4 * app + rng.logistic(0, 0.5, n)
    tells = rng.logistic(0, 1, n) < 0.5 + 1.5 * app - shy * born
    X = pd.DataFrame({"app": app, "income": income, "debt": debt})
    group = GROUPS[born]
    return X, OFFERS[np.digitize(need, [0, 1.5])], group, np.where(tells, group, None)


_, _, group, told = draw_customers(50_000, 0)
pd.Series(told).notna().groupby(group).mean().to_frame("told their group").round(2)

# %%
# Four ways to fit
# ----------------
# ``missing="infer"`` learns the offers from everybody. It learns from those who told
# how likely each group is, and keeps the tolerance for everybody. The alternatives are
# to leave people out, or to make those who did not tell a group of their own. We do
# this for five samples of customers, and measure with the groups of 50,000 others. In
# the last line telling depends on the group, too.

X_all, y_all, group_all, _ = draw_customers(50_000, 99)


def fit_and_measure(X, y, groups, missing="error"):
    """Return right offers and the largest gap of a rule, among all people."""
    model = OptFairPost(criterion="dp", tolerance=0.03, missing=missing, random_state=0)
    h = model.fit(X, y, sensitive_features=groups).predict_proba(X_all)
    right = h[np.arange(len(y_all)), np.searchsorted(OFFERS, y_all)].mean()
    gap = violation(y_all, h, sensitive_features=group_all, classes=OFFERS)
    return right, gap


lines = []
for seed in range(1, 6):
    X, y, group, told = draw_customers(5000, seed)
    some = told == group
    X_shy, y_shy, _, told_shy = draw_customers(5000, seed, shy=0.7)
    ways = {
        "all groups known": fit_and_measure(X, y, group),
        "inferred": fit_and_measure(X, y, told, "infer"),
        "left out": fit_and_measure(X[some], y[some], told[some]),
        "a group of their own": fit_and_measure(X, y, told, "group"),
        "inferred, shy groups": fit_and_measure(X_shy, y_shy, told_shy, "infer"),
    }
    lines += [[way, *numbers, numbers[1]] for way, numbers in ways.items()]
table = pd.DataFrame(lines, columns=["way", "right", "gap", "worst gap"])
summary = {"right": "mean", "gap": "mean", "worst gap": "max"}
table.groupby("way", sort=False).agg(summary).round(3)

# %%
# Inferring is about as good as knowing all groups: the differences are within noise.
# Leaving people out costs 7 points of right offers, and the gap is twice as large,
# because those who told are not like the others. A group of their own sounds careful.
# It protects people by whether they told, and leaves the real groups far apart.
#
# Inferring is right as long as telling depends on the features and the class only. In
# the last line people born elsewhere tell less often than their features explain. The
# gap is then somewhat larger.
#
# Audit what nobody told
# ----------------------
# Now the rule is in use, and an auditor asks for the gaps of 6,000 new customers. Half
# of the groups are unknown. ``unknown_group_bounds`` tells between which limits a gap
# is *whatever* the unknown groups are. With ``refusal=2`` it assumes that the odds of a
# group among those who did not tell are at most twice, and at least half, what their
# features make likely. Here that is true.

model = OptFairPost(criterion="dp", tolerance=0.03, missing="infer", random_state=0)
model.fit(X, y, sensitive_features=told)
X_new, y_new, group_new, told_new = draw_customers(6000, 100, shy=0.35)
offers = model.predict(X_new)
question = {"sensitive_features": told_new, "criterion": "dp", "tolerance": 0.1}
likely = model.group_probabilities(X_new, y_new)
anything = unknown_group_bounds(y_new, offers, **question)
twice = unknown_group_bounds(
    y_new, offers, refusal=2, group_probabilities=likely, **question
)

truth = []  # only a synthetic world can tell
for row in twice.table.itertuples():
    hit = offers == row.outcome
    truth.append(hit[group_new == row.group].mean() - hit.mean())

figure, axes = plt.subplots(figsize=(4.8, 4.4), layout="constrained")
rows = np.arange(9)
axes.axvspan(-0.1, 0.1, color="0.92")
for bounds, shift, colour, label in [
    (anything, 0.18, "0.5", "whatever they are"),
    (twice, -0.18, "C0", "odds at most twice"),
]:
    t = bounds.table
    axes.hlines(rows + shift, t["low"], t["high"], color=colour, linewidth=1)
    axes.hlines(rows + shift, t["least"], t["most"], color=colour, lw=5, label=label)
axes.plot(twice.table["value"], rows, "o", color="C1", label="those who told")
axes.plot(truth, rows, "D", color="C2", markersize=5, label="truth")
names = [f"{row.group}, {row.outcome[2:]}" for row in twice.table.itertuples()]
axes.set(yticks=rows, yticklabels=names, xlabel="gap to everybody")
axes.invert_yaxis()
axes.set_title("Those who told can mislead")
figure.legend(*axes.get_legend_handles_labels(), ncols=2, loc="outside lower center")

# %%
# The bars are the limits for these 6,000 people. The thin ends add chance. Among those
# who told, reminders go to people born overseas 13 points less often than to everybody.
# In truth it is 3 points. The wrong expectation is that an audit of those who told is
# an audit. Without an assumption (grey) nearly everything is possible. With one (blue)
# the limits are narrower, and the assumption has to be defended.
#
# The report of the audit makes the same statements, and says what it assumes.

audit(
    y_new,
    offers,
    missing="infer",
    refusal=2,
    group_probabilities=likely,
    **question,
)

# %%
# Ask some of them
# ----------------
# More people of unknown group do not help, only asking does. We ask 600 of those who
# did not tell, chosen by lot. Each of them stands for five, and is counted with that
# weight. No assumption is needed, as long as those who are asked answer.

silent = np.flatnonzero(told_new != group_new)
asked = np.random.default_rng(0).choice(silent, 600, replace=False)
weight = np.where(told_new == group_new, 1.0, 0.0)
weight[asked] = len(silent) / len(asked)
used = weight > 0
counts = group_confusion(
    y_new[used],
    offers[used],
    sensitive_features=group_new[used],
    sample_weight=weight[used],
)
gaps = constraint_table(counts, Constraint("dp", 0.1), random_state=0)
gaps["truth"] = truth
gaps[["group", "outcome", "value", "low", "high", "truth"]].round(3)

# %%
# All intervals hold at once with 95 % confidence. Eight of the nine gaps are surely
# within 10 points, and every true gap is between its limits. The limits are narrower
# than those that rest on an assumption.
#
# What to take away
# -----------------
# - Do not leave out people of unknown group. They differ from the others, and the rule
#   is for them too. ``missing="infer"`` fits a rule for everybody.
# - Say what an audit assumes about those who did not tell. Without an assumption the
#   limits are wide, and that is the honest answer.
# - Asking a few people, chosen by lot, is better than any assumption. Let them tell of
#   their own free will, and tell them what it is for.
#
# Read more: :doc:`/guide/groups`, :doc:`/guide/audits`,
# :doc:`/gallery/plot_small_groups`.
