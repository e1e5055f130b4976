"""Encode the columns of a table as numbers: what the command line and the default estimator stand on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.preprocessing import OneHotEncoder
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from optfair.inputs.cells import as_numbers, as_texts
from optfair.inputs.frames import as_frame, is_record, is_record_list, read_records
from optfair.inputs.schema import MIN_LEVEL_COUNT, NUMBERS, TEXTS, Schema, find_schema
from optfair.utils.checks import check_choice

MAX_LEVELS = 100  # of a column of texts, so that a column of names does not fill the memory


class TableEncoder(TransformerMixin, BaseEstimator):
    """Encode a data frame with numbers, texts and gaps as an array of numbers.

    Numbers and truth values: a missing one becomes the median, and further columns say where values were missing.
    Texts: a column for each that at least ten rows have (at most 100), and one for the rare, the unknown ones among
    them; a missing text is a level of its own. How a missing value is written (None, NaN, NA, NaT, null) makes no
    difference, nor does the type of a column: 7, 7.0 and "7" are the same text, and True is the number 1.

    Columns that cannot tell anything are left out: dates, identifiers, row numbers, and those that are empty or
    constant. The default estimator of `OptFairPost` and the commands ``optfair fit`` and ``optfair frontier`` use this
    encoder.

    Parameters
    ----------
    texts : sequence of str, default ()
        Columns that are always read as texts, such as numbers that are codes.
    numbers : sequence of str, optional
        Columns that are read as numbers; these and ``texts`` are then all that is read. By default ``fit`` looks at
        every column.
    remainder : {"drop", "passthrough"}, default "drop"
        Whether columns that are not read are left out, or passed on as they are.

    Attributes
    ----------
    numbers_ : list of str
        Columns that are read as numbers.
    texts_ : list of str
        Columns that are read as texts.
    notes_ : list of str
        A sentence on each column that is left out.
    transformer_ : ColumnTransformer
        The imputer of the numbers and the one-hot encoder of the texts.
    feature_names_in_ : ndarray of str
        All columns of the frame fitted on.

    Examples
    --------
    >>> import pandas as pd
    >>> from optfair import TableEncoder
    >>> table = pd.DataFrame({"age": [31, None, 54] * 10, "city": ["Rome", None, "Oslo"] * 10})
    >>> encoder = TableEncoder().fit(table)
    >>> encoder.get_feature_names_out().tolist()
    ['age', 'missingindicator_age', 'city_Oslo', 'city_Rome', 'city_nan']
    >>> encoder.transform([{"age": 31, "city": "Rome"}, {"city": None}])
    array([[31. ,  0. ,  0. ,  1. ,  0. ],
           [42.5,  1. ,  0. ,  0. ,  1. ]])
    """

    def __init__(
        self, *, texts: Sequence[str] = (), numbers: Sequence[str] | None = None, remainder: str = "drop"
    ) -> None:
        self.texts = texts
        self.numbers = numbers
        self.remainder = remainder

    def fit(self, X: Any, y: Any = None) -> TableEncoder:
        """Learn which columns are read, their medians and their levels.

        Parameters
        ----------
        X : data frame (pandas, polars, arrow) or list of dicts
            The rows.
        y : object, optional
            Not used.

        Returns
        -------
        TableEncoder
            The fitted encoder itself.

        Examples
        --------
        >>> import pandas as pd
        >>> from optfair import TableEncoder
        >>> TableEncoder().fit(pd.DataFrame({"age": [31, None, 54], "same": 1})).notes_
        ["column 'same' is 1 in every row: it is not used as a feature (leave it out of X to silence this)."]
        """
        check_choice("remainder", self.remainder, ("drop", "passthrough"))
        table = as_frame(X)
        absent = [name for name in (*self.texts, *(self.numbers or ())) if name not in table.columns]
        if absent:
            raise ValueError(f"texts, numbers: {absent[0]!r} is not among the columns of X.")
        if self.numbers is None:
            schema, notes = find_schema(table, self.texts)
        else:
            schema, notes = Schema(list(self.numbers), list(self.texts)), []
        self.numbers_, self.texts_, self.notes_ = schema.numbers, schema.texts, notes
        self.feature_names_in_, self.n_features_in_ = np.array(table.columns, dtype=object), table.shape[1]
        numbers = SimpleImputer(strategy="median", add_indicator=True, keep_empty_features=True)
        texts = OneHotEncoder(
            handle_unknown="infrequent_if_exist",
            min_frequency=MIN_LEVEL_COUNT,
            max_categories=MAX_LEVELS,
            sparse_output=False,
        )
        parts = [(NUMBERS, numbers, schema.numbers), (TEXTS, texts, schema.texts)]
        self.transformer_ = ColumnTransformer(
            [part for part in parts if part[2]], remainder=self.remainder, verbose_feature_names_out=False
        )
        self.transformer_.fit(self._features(table))
        return self

    def transform(self, X: Any) -> np.ndarray:
        """Encode rows.

        Parameters
        ----------
        X : data frame (pandas, polars, arrow) or list of dicts
            The rows; columns that are not read may be there or not, and a key that a dict does not have is missing.

        Returns
        -------
        ndarray of shape (n, n_features_out)
            The rows as numbers.

        Examples
        --------
        >>> import pandas as pd
        >>> from optfair import TableEncoder
        >>> table = pd.DataFrame({"age": [31, None, 54]})
        >>> TableEncoder().fit(table).transform(table).shape
        (3, 2)
        """
        check_is_fitted(self, "transformer_")
        is_records = is_record(X) or is_record_list(X)
        table = read_records(X, [*self.numbers_, *self.texts_]) if is_records else as_frame(X)
        return np.asarray(self.transformer_.transform(self._features(table)))

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Return the names of the encoded columns.

        Parameters
        ----------
        input_features : object, optional
            Not used.

        Returns
        -------
        ndarray of str
            One name per column of `transform`.

        Examples
        --------
        >>> import pandas as pd
        >>> from optfair import TableEncoder
        >>> TableEncoder().fit(pd.DataFrame({"age": [31, None, 54]})).get_feature_names_out().tolist()
        ['age', 'missingindicator_age']
        """
        check_is_fitted(self, "transformer_")
        return np.asarray(self.transformer_.get_feature_names_out())

    def _features(self, table: pd.DataFrame) -> pd.DataFrame:
        """Return what the transformer reads: the columns of the schema, converted, and the others if they pass."""
        features = feature_table(table, Schema(self.numbers_, self.texts_))
        if self.remainder == "drop":
            return features
        return pd.concat([features, table.drop(columns=[*self.numbers_, *self.texts_])], axis=1)

    def __sklearn_tags__(self) -> Tags:
        """Tell scikit-learn what can be read."""
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = tags.input_tags.string = tags.input_tags.categorical = True
        tags.input_tags.two_d_array = False  # columns have names
        return tags


def feature_table(table: pd.DataFrame, schema: Schema) -> pd.DataFrame:
    """Return X: numbers, then texts. A value that cannot be converted is an error with its column and row."""
    absent = [name for name in schema.columns if name not in table.columns]
    if absent:
        raise ValueError(f"X: has no column {absent[0]!r}, which was there when the encoder was fitted; add it.")
    columns = {name: as_numbers(table[name]) for name in schema.numbers}
    columns |= {name: as_texts(table[name], empty=False) for name in schema.texts}
    return pd.DataFrame(columns, index=table.index)
