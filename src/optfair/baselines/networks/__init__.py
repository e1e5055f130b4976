"""Baselines that are trained as networks, by lessons of their own (extra ``torch``)."""

from optfair.errors import need_extra

need_extra("torch", "optfair.baselines.networks")
