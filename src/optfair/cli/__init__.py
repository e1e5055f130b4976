"""Run the commands ``optfair demo | audit | fit | predict | frontier | datasets``."""
