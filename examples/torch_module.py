"""Make a fitted torch module fair without retraining it: OptFairPost needs its probabilities and nothing else.

Run with: pip install "optfair[torch]" && python examples/torch_module.py
"""

import numpy as np
import torch
from sklearn.datasets import make_classification

from optfair import OptFairPost

# Synthetic rows of 10 features and 4 classes; one of the features is correlated with the group.
X, y = make_classification(12_000, n_features=10, n_informative=8, n_redundant=0, n_classes=4, random_state=0)
X = X.astype(np.float32)
group = np.where(X[:, 0] + np.random.default_rng(0).standard_normal(len(X)) > 0.8, "B", "A")
train, held_out, test = np.split(np.arange(len(X)), [5_000, 9_000])

torch.manual_seed(0)
module = torch.nn.Sequential(torch.nn.Linear(10, 64), torch.nn.ReLU(), torch.nn.Linear(64, 4))
optimizer = torch.optim.AdamW(module.parameters(), lr=0.01)
inputs, labels = torch.from_numpy(X[train]), torch.from_numpy(y[train])
for _ in range(150):
    optimizer.zero_grad()
    torch.nn.functional.cross_entropy(module(inputs), labels).backward()
    optimizer.step()


def probabilities(rows: np.ndarray) -> np.ndarray:
    """Return P(Y | X), columns in the order of the sorted classes."""
    with torch.no_grad():
        return torch.softmax(module(torch.from_numpy(rows)), dim=1).numpy()


# The rule is fitted on rows that the module was not trained on; only P(group | x, class) is learned.
fair = OptFairPost(probabilities, criterion="equalized_odds", tolerance=0.02, random_state=0)
fair.fit(X[held_out], y[held_out], sensitive_features=group[held_out])
print(fair.report(X[test], y[test], sensitive_features=group[test]))
