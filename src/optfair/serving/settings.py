"""Hold what a service is started with, and the numbers that bound what one request can cost, each with its reason."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ServiceSettings:
    """What a service is started with.

    max_bytes, max_people : of one request. explains : whether /explain is there. grace : seconds from the signal to
    stop to the end. drain : of these, seconds in which new connections are still accepted; None for the usual share.
    is_quiet : whether only errors are logged. digest : SHA-256 of the model file, to tell models apart.
    """

    host: str = "127.0.0.1"
    port: int = 8000
    max_bytes: int = 1_000_000
    max_people: int = 1_000
    explains: bool = True
    grace: float = 10.0
    drain: float | None = None
    is_quiet: bool = False
    digest: str | None = None


# -- a request ---------------------------------------------------------------------------------------------
BODY_SECONDS = 10.0  # for a whole body to arrive: a megabyte takes a second on a slow line
ANSWER_SECONDS = 40.0  # for the model to answer after that; then the client is told to come again
REQUEST_SECONDS = 60.0  # from the first byte to the last one of the answer: whoever takes longer is gone, or holds on
DISCARDED_BODIES = 8  # a body too large is read and thrown away up to so many limits: else its sender sees no answer
DISCARD_SECONDS = 2.0
MAX_EXPLAINED = 100  # people of one request: sentences and terms take a millisecond each, an answer a hundredth
MAX_UNREAD = 100  # different fields of a request that the model does not read
COMPARED_LENGTH = 100  # letters of a name; a longer one looks like a feature only if it differs in capitals alone
COMPARED_PAIRS = 500_000  # of letters of such fields and of absent features: 10 ms

# -- all requests ------------------------------------------------------------------------------------------
MAX_CONNECTIONS = 900  # a process may mostly have 1,024 files open
KEEP_ALIVE_SECONDS = 75  # longer than pools and load balancers keep a connection, so that they end it, not we
HELD_BODIES = 32  # all bodies for predictions that arrive or wait hold at most so many limits of bytes
HELD_EXPLAINED = 8  # and those for explanations, so that they leave room
MAX_WAITING = 512  # requests that wait for a prediction: of one person each, a third of a second of work
MAX_IN_PIECES = 32  # that wait for an explanation, or for predictions of one call each: two seconds of work
RETRY_SECONDS = 1  # what a client is told to wait where there are more

# -- answers -----------------------------------------------------------------------------------------------
BATCH_REQUESTS = 64  # answered together; one call costs 7 ms for one person, 8 ms for a hundred
BATCH_BYTES = 256_000  # of their bodies; a request that is larger goes alone
# What takes long goes in pieces, and a prediction waits for no more than one of them: to explain one person takes 9 ms,
# 25 people 20 ms, and a hundred 57 ms.
PIECE_PEOPLE = 25
PIECE_CALLS = 4  # of the model; a prediction of people who need more, since one call would mix their types, goes so too
PIECE_SHARE = 0.2  # of the time while predictions come without a pause
GATHER_SECONDS = 0.003  # waited for requests that come as answers go; not where clients ask one by one
DIGITS = 9  # of probabilities: sums of a batch differ by 1e-12, certainty begins at 1 − 1e-9
SELF_TEST_SECONDS = 1.0  # for so long the result of a self-test is told again
HEALTH_SECONDS = 5.0  # that a self-test may take, behind the batch that is under way

# -- the end -----------------------------------------------------------------------------------------------
# For a second new connections are still accepted, and every answer ends its own: clients that ask all the time go
# without losing a request, and load balancers notice /health. Less, if there is little time.
DRAIN_SECONDS = 1.0
DRAIN_SHARE = 0.25  # of the grace
QUIET_SECONDS = 0.25  # a connection on which nothing came for so long has nothing under way to us
FIRST_SECONDS = 2.0  # but a new one will: its client may pause before the first request, to collect garbage
