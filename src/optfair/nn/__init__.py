"""Networks that fit soft targets, as scikit-learn classifiers (extra ``torch``).

nets       (input shape, m) to a module that gives m logits
batches    the rows of X, from an array or from a torch Dataset, a batch at a time
training   the loss of soft targets, its gradient, and epochs of AdamW or SGD
full_batch L-BFGS on all rows, with Newton steps at the end for linear modules
settings   the constructor's arguments, checked
classifier `TorchClassifier`
images     `ImageDataset`: JPEG and PNG files to what ``module="resnet"`` reads
"""

from optfair.errors import need_extra

need_extra("torch", "optfair.nn")

from optfair.nn.classifier import TorchClassifier  # noqa: E402
from optfair.nn.images import ImageDataset  # noqa: E402
from optfair.nn.nets import make_module  # noqa: E402

__all__ = ["ImageDataset", "TorchClassifier", "make_module"]
