"""
A first fair model
==================

*I have a table, five outcomes and four groups. What does it cost to treat the groups alike?*
"""

from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from optfair import OptFairPost
from optfair.datasets import load

data = load("adult-occupation")
train, test = data.split(0.7, random_state=0)
classifier = make_pipeline(StandardScaler(), LogisticRegression(max_iter=500))
model = OptFairPost(classifier, criterion="dp", tolerance=0.02, random_state=0)
model.fit(train.X, train.y, sensitive_features=train.sensitive_features)
model.report(test.X, test.y, sensitive_features=test.sensitive_features)

# %%
# And the path of tolerances.

model.frontier(tolerances=6).plot()
