"""Train networks by objectives of their own: the baselines that need the extra ``torch``."""

from optfair.errors import need_extra

need_extra("torch", "optfair.baselines.networks")
