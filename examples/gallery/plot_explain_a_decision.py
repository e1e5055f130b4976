"""
Explain one decision
====================

*A person asks: why did I get this suggestion, and not the other one? What can I
answer?*

The model of :doc:`/gallery/plot_first_fair_model` suggests kinds of work. A man with
the features of a manager was suggested something else, and he asks why. We find out
what moved his answer, whether chance played a part, and which tolerance would have
changed it.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from optfair import OptFairPost
from optfair.datasets import load

data = load("adult-occupation")
train, test = data.split(0.7, random_state=0)
classifier = make_pipeline(StandardScaler(), LogisticRegression(max_iter=500))
model = OptFairPost(classifier, criterion="dp", tolerance=0.02, random_state=0)
model = model.fit(train.X, train.y, sensitive_features=train.sensitive_features)
path = model.path(15)  # rules of other tolerances: they tell when an answer changes

# %%
# What moved the answer
# ---------------------
# ``explain`` returns a line for each person. We look for somebody whom the model itself
# would suggest management, whose answer is another one, and for whom the draw mattered.

people = test.X.iloc[:1000]
explanation = model.explain(people)
lines = explanation.table
chosen = lines.query("model == plain == 'management' and answer != plain and undecided")
person = int(chosen.index[0])
one = explanation[person]
print(one.sentences[0])

# %%
# The answer with the highest score wins. A difference of scores is a sum: what the
# model itself prefers, and one part for each group and prediction whose rates had to be
# moved. Nothing else plays a part. In particular the rule does not know the group of
# the person.

facts, terms = lines.loc[person], one.terms
names = ["preference of the model"]
names += [f"rate of {t.outcome} among {', '.join(t.group)}" for t in terms.itertuples()]
parts = 100 * np.r_[facts["preference"], terms["part"]]
left = np.r_[0, parts.cumsum()[:-1]]

figure, (top, middle, low) = plt.subplots(
    3, 1, figsize=(4.8, 5.8), height_ratios=[5, 1.3, 3], layout="constrained"
)
rows = np.arange(len(parts))
top.barh(rows, parts, 0.4, left, color=np.where(parts < 0, "C1", "C0"))
for row, name in enumerate(names):
    top.text(parts[0], row - 0.27, name, va="bottom")
top.axvline(0, color="0.5", linewidth=1)
top.set(yticks=[], ylim=(rows[-1] + 0.3, -0.7), xlabel="percentage points")
top.set_title(f"Score of {facts['answer']} minus {facts['against']}")

shares = model.predict_proba(people.iloc[[person]])[0]
starts = np.r_[0, shares.cumsum()[:-1]]
for label, share, start in zip(model.classes_, shares, starts, strict=True):
    if share > 0.01:
        middle.barh(0, share, 0.5, start, color="0.85", edgecolor="0.5")
        middle.text(start + 0.02, 0, label, va="center", fontsize=9)
middle.plot([facts["draw"]] * 2, [-0.4, 0.4], color="C0", linewidth=3)
middle.set(yticks=[], xlim=(0, 1))
middle.set_title("His number decides between near-equal scores")

z = model.joint_posterior(people.iloc[[person]])
along = np.array([rule.predict_proba(z)[0] for rule in path.rules])
for label, line in zip(model.classes_, along.T, strict=True):
    if line.max() > 0.1:
        low.plot(path.table["tolerance"], line, "o-", markersize=4, label=label)
low.axvline(0.02, color="0.5", linewidth=1, linestyle="--")
low.set(xscale="log", xlabel="tolerance (dashed: ours)", ylabel="probability")
low.set_xticks([0.001, 0.01, 0.02, 0.1], labels=["0.001", "0.01", "0.02", "0.1"])
low.set_title("With a larger tolerance it would be management")
low.legend(loc="center left")

# %%
# The draw is not a new lottery at every request. The number is computed from the
# features by a hash with a secret key. The same person always gets the same answer, and
# over all people the answers have exactly the shares of the fair rule.
#
# A letter
# --------
# The sentences are written for the person concerned. A letter adds what was decided, by
# whom, and what the person can do.

letter = [
    "Dear Sir,",
    f"you asked why our system suggested {facts['answer']} work to you, and not "
    f"{facts['against']} work. Our suggestions must treat women and men of every "
    f"origin alike, within 2 percentage points. {one.sentences[0]}",
    "You may ask a person of our staff to look at your case again.",
]
print("\n\n".join(letter))

# %%
# What to take away
# -----------------
# - Every answer is a sum of the preference of the model and the parts of the
#   constraints. Nothing is left unexplained.
# - Few people are decided by a draw. The explanation says so, with the number and the
#   interval.
# - Fair rules have consequences for single people, also for people of groups that had
#   an advantage. Be ready to explain them.
#
# Read more: :doc:`/guide/practice`, :doc:`/theory/how_it_works`, :doc:`/guide/limits`.
