"""
A first fair model
==================

*My model sorts people of four groups into five kinds of work. What does fairness cost?*

The data come with the package. They are 46,033 people of the US census of 1994, with
their kind of work, sex and race. An agency could use such a model to suggest jobs. We
look at what an ordinary model suggests to each group. Then we bound the differences
between the groups.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from optfair import OptFairPost
from optfair.datasets import load

data = load("adult-occupation")
train, test = data.split(0.7, random_state=0)
groups = test.sensitive_features.agg(", ".join, axis=1)
classifier = make_pipeline(StandardScaler(), LogisticRegression(max_iter=500))
plain = clone(classifier).fit(train.X, train.y)
names = {"rownames": ["group"], "colnames": ["prediction"], "normalize": "index"}
before = pd.crosstab(groups, plain.predict(test.X), **names)
before.T.round(2)

# %%
# The columns are the groups of the test data. The rows are the predictions. The plain
# model suggests management to one man in nine if he is white, and to one woman in a
# hundred if she is not.
#
# Ask for demographic parity
# --------------------------
# *Demographic parity* asks that every group receives every prediction at nearly the
# same rate. With ``tolerance=0.02`` the rate of a group may be 2 percentage points away
# from the rate of everybody. The groups are needed to fit the model. They are not
# needed to predict.

fair = OptFairPost(classifier, criterion="dp", tolerance=0.02, random_state=0)
fair.fit(train.X, train.y, sensitive_features=train.sensitive_features)
after = pd.crosstab(groups, fair.predict(test.X), **names)

figure, axes = plt.subplots(layout="constrained")
works = np.arange(before.shape[1])
for label, rates, shift in [("plain model", before, 0.2), ("fair model", after, -0.2)]:
    colour = "C1" if rates is before else "C0"
    spread = dict(color=colour, alpha=0.4, linewidth=6, label=label)
    axes.hlines(works + shift, rates.min(), rates.max(), **spread)
    axes.plot(rates.T, works + shift, "o", color=colour, markersize=5)
axes.set(yticks=works, yticklabels=before.columns, xlabel="share of the group")
axes.set_title("Who is suggested what: a dot per group")
axes.legend()

# %%
# The dots of a line are now close together. They do not coincide: these are new people,
# and chance moves the rates of small groups.
#
# What it costs
# -------------
# The features of the groups differ, and the plain model uses that. A model that treats
# the groups alike is therefore less often right. The table shows the share of right
# predictions, and how many test people there are in each group.

right = pd.DataFrame(
    {"plain": plain.predict(test.X) == test.y, "fair": fair.predict(test.X) == test.y}
)
accuracy = right.groupby(groups).mean()
accuracy.loc["everybody"] = right.mean()
accuracy["change"] = accuracy["fair"] - accuracy["plain"]
accuracy["people"] = groups.value_counts()
accuracy.loc["everybody", "people"] = len(groups)
accuracy.round(3).astype({"people": int})

# %%
# Read the report
# ---------------
# The report answers the questions that a colleague will ask. It begins with a verdict,
# and it is honest about what the data can show. Scroll in it, and move the slider in
# "Other tolerances".

fair.path()  # rules for other tolerances, for the slider
fair.report(test.X, test.y, sensitive_features=test.sensitive_features)

# %%
# The verdict is *cannot tell*. The test people do not show that all 20 gaps are within
# 2 points in the population, because some groups are small.
# :doc:`/gallery/plot_promise_to_new_people` shows how to get a statement about new
# people.
#
# What to take away
# -----------------
# - Two lines put a fair model on top of any scikit-learn classifier. It needs no group
#   to predict.
# - Fairness has a cost in accuracy, and the cost differs between the groups. Look at
#   every group before you decide.
# - The report tells a difference that is certain from a difference that chance alone
#   could explain.
#
# Read more: :doc:`/start`, :doc:`/guide/criterion`, :doc:`/guide/report`.
