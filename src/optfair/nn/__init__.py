"""Fit networks to labels or to soft targets, as scikit-learn classifiers (extra ``torch``).

nets            (input shape, m) to a module that returns m logits
batches         the rows of X, from an array or from a torch Dataset, a batch at a time
images          `ImageDataset`: JPEG and PNG files to what ``module="resnet"`` reads
loss            the cross-entropy of soft targets and its gradient
optimizers      AdamW and SGD on one vector of parameters
training        what an epoch minimises, and epochs of minibatches
full_batch      L-BFGS on all rows, with Newton steps at the end for linear modules
early_stopping  validation rows, and the best parameters for them
fitting         one call of a fit: full batch or epochs, with or without early stopping
settings        the constructor's arguments, checked
targets         labels, cells and tables of targets, checked
serialization   modules and trainings as arrays, and back
prediction      X, checked and read, and what the network predicts for it
classifier      `TorchClassifier`
"""

from optfair.errors import need_extra

need_extra("torch", "optfair.nn")

from optfair.nn.classifier import TorchClassifier  # noqa: E402
from optfair.nn.images import ImageDataset  # noqa: E402
from optfair.nn.nets import make_module  # noqa: E402

__all__ = ["ImageDataset", "TorchClassifier", "make_module"]
