"""The command line: ``optfair demo | audit | fit | predict | frontier | datasets``."""
