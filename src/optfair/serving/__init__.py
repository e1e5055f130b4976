"""Serve a fitted classifier over HTTP (extra ``serve``): what ``optfair serve`` runs.

settings       numbers that bound a service, each with its reason
refusals       a status and one line, for requests that are not answered
documents      bytes to JSON, strictly
envelopes      JSON to people: features, key, group
spelling       names that are features, misspelt
fields, rows   features to the columns of the model;   singles : columns whose type depends on what is in them
groups         the group of a person;   people : all of it
notes          what is said beside the answers
answering      people to answers and reasons, in few calls of the model
replies        questions of several clients to replies, each as if it had come alone
queues         what waits for the model;   pieces : what takes long;   worker : the thread that asks the model
examples       people of nobody;   self_test, health : whether they are answered as at the start
counters       what Prometheus reads
openapi, page  what the service says about itself
bodies, app    HTTP on Starlette;   connections, server : on uvicorn, until the last request is answered
service        all of it put together
log            lines without values
"""

from optfair.errors import need_extra

for _module in ("starlette", "uvicorn", "prometheus_client"):
    need_extra(_module, "optfair.serving")

from optfair.serving.server import bind, run_service  # noqa: E402
from optfair.serving.settings import ServiceSettings  # noqa: E402

__all__ = ["ServiceSettings", "bind", "run_service"]
