"""Say whether a service answers, and as it did at the start."""

from __future__ import annotations

import asyncio
import time

from optfair.serving.log import LOGGER, log_failure
from optfair.serving.self_test import SelfTest
from optfair.serving.settings import HEALTH_SECONDS, SELF_TEST_SECONDS
from optfair.serving.worker import Worker

OK, FAILING, STUCK, STOPPING = "ok", "failing", "stuck", "stopping"


class Health:
    """The state of a service: whoever asks meanwhile shares one self-test, and its result for a second."""

    def __init__(self, self_test: SelfTest, worker: Worker) -> None:
        self._self_test, self._worker = self_test, worker
        self._result: asyncio.Future[bool] | None = None
        self._start = 0.0

    async def state(self) -> str:
        """Return OK, or what is wrong."""
        if self._result is None or (self._result.done() and time.monotonic() - self._start > SELF_TEST_SECONDS):
            self._start = time.monotonic()
            self._result = self._worker.call(self._self_test.passes)
        try:
            passes = await asyncio.wait_for(asyncio.shield(self._result), HEALTH_SECONDS)
        except TimeoutError:
            LOGGER.error("the model has not answered its self-test for %g seconds", HEALTH_SECONDS)
            return STUCK
        except Exception as error:
            log_failure(error)
            return FAILING
        if not passes:
            LOGGER.error("the model does not answer its self-test as at the start")
        return OK if passes else FAILING
