"""
An audit without labels or model
================================

*I have a table of applicants and decisions, nothing else. Do they pass the four-fifths
rule?*

You are asked to look at a year of hiring. There are 1,400 applicants with sex, age and
one of three decisions: rejected, interview or offer. Nobody knows who would have been
right for the job, and the model of the supplier is secret. The *four-fifths rule* of
the US Uniform Guidelines on Employee Selection Procedures (1978) asks that the rate of
selection of a group be at least 80 % of the highest one. The applicants are synthetic.
At the end we compare the audit with the truth.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from optfair import Ratio, audit

# What the auditor does not know: the true probability of an offer in each group.
groups = [("woman", "under 40"), ("woman", "40+"), ("man", "under 40"), ("man", "40+")]
sizes, offers = np.array([0.35, 0.12, 0.38, 0.15]), np.array([0.25, 0.13, 0.24, 0.22])

rng = np.random.default_rng(2)
which = rng.choice(4, 1400, p=sizes)
applicants = pd.DataFrame(np.array(groups)[which], columns=["sex", "age"])
levels = np.c_[1 - offers - 0.3, 1 - offers][which]  # rejected below, offer above
number = rng.random(1400)
decision = np.array(["1 rejected", "2 interview", "3 offer"])[
    (number[:, None] > levels).sum(axis=1)
]

# %%
# Ask the question of the rule
# ----------------------------
# ``Ratio`` compares every group with every other one. ``attributes="both"`` looks at
# sex, at age, and at their intersections. Without labels, ``y`` is ``None``.

rule = Ratio("dp", 0.8, outcomes=["3 offer"], attributes="both")
report = audit(None, decision, sensitive_features=applicants, criterion=rule)
print(report.verdict.light, "-", report.verdict.sentence)

# %%
# The verdict is about all comparisons at once. A regulator also looks at single ratios,
# each with its interval and an exact test. The page for a regulator has them, and
# ``to_dict`` has the numbers. ``p_all`` allows for all pairs that could have been
# compared, because the group with the highest rate is known only afterwards.

lines = [
    row | {"family": family["family"]}
    for family in report.to_dict()["impact"]
    for row in family["rows"]
]
impact = pd.DataFrame(lines)
columns = ["people", "selected", "value", "ratio", "p_value", "p_all"]
impact.set_index("group")[columns].round(3)

# %%
# By sex alone the rates of offers look alike. By age they look worse, and the
# intersections show where: women over 40. A diamond is the truth.

names = [f"{sex} × {age}" for sex, age in groups]
truth = dict(zip(names, offers, strict=True))
for attribute in (0, 1):
    for level in {group[attribute] for group in groups}:
        part = np.array([group[attribute] == level for group in groups])
        truth[f"{applicants.columns[attribute]}: {level}"] = np.average(
            offers[part], weights=sizes[part]
        )
best = impact[impact["is_reference"].astype(bool)].set_index("family")["group"]
others = impact[~impact["is_reference"].astype(bool)].reset_index()
true_ratio = [truth[row.group] / truth[best[row.family]] for row in others.itertuples()]

figure, axes = plt.subplots(figsize=(4.8, 3), layout="constrained")
axes.axvspan(0.8, 1.3, color="0.9")
axes.axvline(0.8, color="0.5", linewidth=1)
axes.hlines(
    others.index, others["ratio_low"], others["ratio_high"], linewidth=4, alpha=0.4
)
axes.plot(others["ratio"], others.index, "o", label="measured, with 95 % interval")
axes.plot(true_ratio, others.index, "D", color="C1", markersize=5, label="truth")
axes.set(
    yticks=others.index,
    yticklabels=others["group"],
    xlim=(0.3, 1.3),
    xlabel="rate of offers, relative to the highest",
)
axes.invert_yaxis()
axes.set_title("The four-fifths rule asks for 0.8")
axes.legend(loc="upper left", bbox_to_anchor=(-0.35, -0.18), ncols=2)

# %%
# Women over 40 receive offers about half as often as the highest group, and an exact
# test says that chance alone hardly explains it. The verdict above is nevertheless
# *cannot tell*. It must be right about all 16 comparisons at once, and some of them
# rest on 165 people only. Both statements are honest. They answer different questions,
# and the report shows both.
#
# The page for a regulator
# ------------------------
# ``report.html("audit.html")`` writes one file that needs no network. It is what you
# see here. The section "For a regulator" has the tables above.

report

# %%
# What to take away
# -----------------
# - Parity and the four-fifths rule need no labels and no model. A table of groups and
#   decisions is enough.
# - Look at intersections. Sex alone looked fair here.
# - A ratio below 0.8 in a small group is not yet a proof, and a ratio above it is not
#   yet an acquittal. Report the interval.
#
# Read more: :doc:`/guide/audits`, :doc:`/guide/report`, :doc:`/guide/findings`.
