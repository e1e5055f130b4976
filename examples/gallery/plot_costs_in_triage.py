"""
Costs in triage
===============

*On an emergency ward some mistakes are far worse than others. What does fairness do to
the dangerous ones?*

A model suggests how soon a patient is seen: wait, soon or now. It reads the pulse, the
pain, and what the patient says. Patients who speak the language of the ward can say
more. With an interpreter less is understood, and without one very little. In this
synthetic ward the three groups are equally ill. The model only knows less about some of
them.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures

from optfair import Constraint, MinimumRate, OptFairPost

CARE = np.array(["1 wait", "2 soon", "3 now"])
GROUPS = np.array(["interpreter", "no interpreter", "same language"])
# Rows: what is right for the patient. Columns: what is suggested.
COSTS = np.array([[0, 1, 2], [4, 0, 1], [20, 6, 0]])


def draw_patients(n, seed):
    """Return pulse, words and pain, the right care, and the group."""
    rng = np.random.default_rng(seed)
    group = rng.choice(3, n, p=[0.2, 0.15, 0.65])
    ill = rng.choice(3, n, p=[0.6, 0.3, 0.1])
    signs = np.c_[ill, np.array([1.4, 0.6, 2.0])[group] * ill, 0.5 * ill]
    return signs + rng.standard_normal((n, 3)), CARE[ill], GROUPS[group]


# %%
# Say what mistakes cost
# ----------------------
# To let somebody wait who must be seen now costs 20. To call somebody in too early
# costs 1 or 2. ``costs=`` minimises the mean cost instead of the number of mistakes. We
# ask that the share of urgent patients who are recognised, the *recall* of "now",
# differs by no more than 2 points from that of everybody: *equal opportunity* for one
# outcome.

equal = Constraint("eop", 0.02, outcomes=["3 now"])
least = MinimumRate("recall", 0.85, outcomes=["3 now"])
model = make_pipeline(
    PolynomialFeatures(2, interaction_only=True), LogisticRegression(max_iter=500)
)
X, y, group = draw_patients(12_000, 0)
X_new, y_new, group_new = draw_patients(100_000, 1)


def fit_rules(awareness):
    """Return rules with and without costs, and without or with a wish for recall."""
    question = {"criterion": equal, "awareness": awareness, "cv": 3, "random_state": 0}
    simple = OptFairPost(model, **question).fit(X, y, sensitive_features=group)
    costly = OptFairPost(model, costs=COSTS, **question)
    costly.fit(X, y, sensitive_features=group)
    return {
        "mistakes": simple.with_tolerance(1.0),
        "mistakes, equal": simple,
        "costs": costly.with_tolerance(1.0),
        "costs, equal": costly,
        "costs, at least 85 %": costly.with_criterion(least),
    }


# %%
# Equal, but how?
# ---------------
# We fit five rules without the group, and five that may use it. ``with_criterion`` fits
# nothing again. The recall is measured on 100,000 new patients.

figure, panels = plt.subplots(
    2, 1, sharex=True, sharey=True, figsize=(4.8, 4.6), layout="constrained"
)
urgent = y_new == "3 now"
cost_of = COSTS[np.searchsorted(CARE, y_new)]
table = {}
for axes, awareness in zip(panels, ["blind", "aware"], strict=True):
    known = {"sensitive_features": group_new} if awareness == "aware" else {}
    rules = fit_rules(awareness)
    recall = pd.DataFrame(index=GROUPS)
    for name, rule in rules.items():
        h = rule.predict_proba(X_new, **known)
        recall[name] = pd.Series(h[urgent, 2]).groupby(group_new[urgent]).mean()
        cost = (h * cost_of).sum(axis=1).mean()
        table[awareness, name] = {"mean cost": cost, "now": h[:, 2].mean()}
    axes.hlines(range(5), recall.min(), recall.max(), color="0.75", linewidth=4)
    for group_name, marker in zip(GROUPS, "sDo", strict=True):
        axes.plot(recall.loc[group_name], range(5), marker, label=group_name)
    axes.set(yticks=range(5), yticklabels=rules, ylim=(4.5, -0.5), xlim=(0, 1))
panels[0].set_title('Recall of "now": the group is not used')
panels[1].set_title("The group is used")
figure.legend(*axes.get_legend_handles_labels(), ncols=3, loc="outside lower center")

# %%
# The wrong expectation is that equal recall means better recall. Equality can be
# reached by taking from those who have more.
#
# - Without costs and without the group, this is what happens. Of urgent patients who
#   speak the language 36 % are recognised instead of 76 %.
# - Costs alone help every group more than equality alone does.
# - With costs but without the group, equality still takes 16 points from patients who
#   speak the language. A minimum takes nothing from any group, and the mean cost is
#   even a little lower. Its price is that twice as many patients are called "now".
# - With the group, equality and the minimum are nearly free.
#
# Some points are 2 or 3 points off what was asked for. There were only 180 urgent
# patients without an interpreter to fit on. In the table "now" is the share of all
# patients who are called at once.

pd.DataFrame(table).transpose().round(2)

# %%
# Costs of a group
# ----------------
# Costs may also depend on the group. In the waiting room a nurse asks again. Without an
# interpreter she learns little, and a delay is found later. So we double the costs of
# delays for these patients. There is one table of costs for each group, in the order of
# ``groups_``.

delays = np.tril(COSTS)  # below the diagonal: suggested later than right
by_group = np.stack([COSTS, COSTS + delays, COSTS])
free = {"criterion": "dp", "tolerance": 1.0, "awareness": "aware"}  # no constraint
doubled = OptFairPost(model, costs=by_group, cv=3, random_state=0, **free)
doubled.fit(X, y, sensitive_features=group)
h = doubled.predict_proba(X_new, sensitive_features=group_new)
pd.Series(h[urgent, 2]).groupby(group_new[urgent]).mean().round(2).to_frame("recall")

# %%
# The recall of patients without an interpreter rises from 78 to 86 %, the others stay.
# Costs say what is at stake. To reach a certain number, a bound is simpler.
#
# Read the report
# ---------------
# We take the minimum, with the group, and test it on 8,000 other patients. ``before=``
# compares it with costs alone. The report cautions that the groups are not called "now"
# equally often. That is as it should be here: where the model knows less, it has to
# call more people.

X_test, y_test, group_test = draw_patients(8000, 2)
rule = rules["costs, at least 85 %"]
costs_only = rules["costs"].predict(X_test, sensitive_features=group_test)
rule.report(X_test, y_test, sensitive_features=group_test, before=costs_only)

# %%
# What to take away
# -----------------
# - Where mistakes are unequal, say so with ``costs=``. Fairness among bad decisions is
#   not worth much.
# - Equality can be reached by taking. Where a low rate is the danger, ask for a
#   minimum: ``MinimumRate("recall", 0.85, outcomes=[...])``.
# - To know the group can protect it. Ask a lawyer before you hide it from the rule.
#
# Read more: :doc:`/guide/criterion`, :doc:`/guide/your_model`,
# :doc:`/gallery/plot_own_criterion`.
