"""Leave an object as it was where a method of it fails."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar, cast

Method = TypeVar("Method", bound=Callable[..., Any])


def restore_on_failure(fit: Method) -> Method:
    """Make a fit that fails leave the estimator as it was, with what an earlier one found."""

    @functools.wraps(fit)
    def guarded(self: Any, *args: Any, **kwargs: Any) -> Any:
        before = dict(self.__dict__)
        try:
            return fit(self, *args, **kwargs)
        except BaseException:
            # In this order: another thread that predicts never finds anything missing.
            self.__dict__.update(before)
            for name in self.__dict__.keys() - before.keys():
                del self.__dict__[name]
            raise

    return cast(Method, guarded)
