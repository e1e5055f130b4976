"""Compare this code with its previous release and with other libraries, in one run on one machine."""
