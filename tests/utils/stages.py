"""A root that remembers which stages were opened in it, however deep, and how far they came."""

from contextlib import contextmanager

from optfair.utils.progress import Stage, watched


class Recorder(Stage):
    """The outermost stage: `records` has every stage that was closed, in the order in which they were opened."""

    def __init__(self):
        super().__init__("")
        self.records = []

    def open(self, inner):
        super().open(inner)
        self.adopt(inner, 0)

    def adopt(self, stage, depth):
        """Remember a stage, and those that are opened in it."""
        stage.depth = depth
        self.records.append(stage)
        plain_open = stage.open

        def open_inner(inner):
            plain_open(inner)
            self.adopt(inner, depth + 1)

        stage.open = open_inner

    def named(self, name):
        """Return the stages of a name."""
        return [stage for stage in self.records if stage.name == name]


@contextmanager
def recorded():
    """Yield the `Recorder` of what is done inside."""
    root = Recorder()
    with watched(root):
        yield root
