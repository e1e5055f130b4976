"""Put a service together: a model, the thread that asks it, and what is answered at each path."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request

from optfair import __version__
from optfair.constraints.naming import name_text
from optfair.inputs.feature_schema import MAX_COLUMNS
from optfair.reporting.wording import request_text
from optfair.rule.keys import key_fingerprint
from optfair.serving.answering import ModelAnswers
from optfair.serving.app import Application, Handler, reply_in_time
from optfair.serving.bodies import BodyReader
from optfair.serving.counters import MEDIA_TYPE, Counters
from optfair.serving.documents import document_bytes
from optfair.serving.examples import ExamplePeople
from optfair.serving.health import OK as HEALTHY
from optfair.serving.health import STOPPING, Health
from optfair.serving.openapi import OpenApi
from optfair.serving.page import page_reply
from optfair.serving.people import PeopleReader
from optfair.serving.refusals import BUSY, CONFLICT, Refusal
from optfair.serving.replies import EXPLAIN, OK, PREDICT, Question, Replies, Reply
from optfair.serving.self_test import SelfTest
from optfair.serving.settings import HELD_BODIES, HELD_EXPLAINED, ServiceSettings
from optfair.serving.worker import Worker

NO_REASONS = (
    "/explain: the answers of this model are votes of trained models, and no sums of terms that could be shown."
)


class Service:
    """Everything that answers for one model; a model that cannot be served is a ValueError."""

    def __init__(self, model: Any, settings: ServiceSettings) -> None:
        check_served(model)
        self.title: str = model._title(model.constraints_)
        reader = PeopleReader(model, settings.max_people)
        answers = ModelAnswers(model, reader)
        examples = ExamplePeople(model, reader)
        handlers: dict[str, tuple[str, Handler]] = {
            "/": ("GET", self._page),
            "/predict": ("POST", self._predict),
            **({"/explain": ("POST", self._explain)} if settings.explains else {}),
            "/health": ("GET", self._health),
            "/metrics": ("GET", self._metrics),
            "/openapi.json": ("GET", self._openapi),
        }
        self._facts = model_facts(model, self.title, settings.digest)
        model_labels = {
            name: str(self._facts[name]) for name in ("optfair", "sha256", "key") if self._facts[name] is not None
        }
        self.counters = Counters(handlers, answers.class_names, model_labels)
        self.app = Application(handlers, self.counters)
        self.worker = Worker(Replies(answers, self.counters), self.counters.count_batch)
        self.counters.watch_queue(self.worker.n_waiting)
        self._explains = answers.explains
        self._bodies = {
            PREDICT: BodyReader(settings.max_bytes, HELD_BODIES),
            EXPLAIN: BodyReader(settings.max_bytes, HELD_EXPLAINED),
        }
        self._state = Health(SelfTest(answers, examples), self.worker)
        openapi = OpenApi(answers, examples, self.title, settings, explains=settings.explains and answers.explains)
        self._openapi_reply = Reply(OK, document_bytes(openapi.document()))
        self._page_reply = page_reply(openapi)

    # -- handlers ----------------------------------------------------------------------------------------------
    async def _predict(self, request: Request) -> Reply:
        return await self._ask(request, PREDICT)

    async def _explain(self, request: Request) -> Reply:
        if not self._explains:
            raise Refusal(CONFLICT, NO_REASONS)
        return await self._ask(request, EXPLAIN)

    async def _ask(self, request: Request, kind: str) -> Reply:
        bodies = self._bodies[kind]
        body = await bodies.read(request)
        try:
            return await reply_in_time(self.worker.ask(Question(kind, body)), request)
        finally:
            bodies.release(body)

    async def _health(self, request: Request) -> Reply:
        state = STOPPING if self.app.is_stopping else await self._state.state()
        return Reply(OK if state == HEALTHY else BUSY, document_bytes({"status": state, **self._facts}))

    async def _metrics(self, request: Request) -> Reply:
        return Reply(OK, self.counters.text(), media_type=MEDIA_TYPE)

    async def _openapi(self, request: Request) -> Reply:
        return self._openapi_reply

    async def _page(self, request: Request) -> Reply:
        return self._page_reply


def check_served(model: Any) -> None:
    """Refuse a model whose rows are no rows of a table."""
    form, is_described = model._form, bool(model._features or model._form.names)
    is_wide = getattr(model, "n_features_in_", 0) > MAX_COLUMNS  # a table that is not described
    if form.layout == "dataset" or (form.layout == "array" and not is_described and not is_wide):
        raise ValueError("the model reads images or items of a torch data set, which no JSON request holds.")


def model_facts(model: Any, title: str, digest: str | None) -> dict[str, Any]:
    """Return what /health says of a model. digest : SHA-256 of its file."""
    key = model._key()
    return {
        "model": title,
        "optfair": __version__,
        "sha256": digest,
        "key": None if key is None else key_fingerprint(key),
        "criterion": request_text(model.constraints_),
        "awareness": model.awareness,
        "decision": model.decision,
        "classes": [name_text(label) for label in model.classes_.tolist()],
        "groups": len(model.groups_),
    }
