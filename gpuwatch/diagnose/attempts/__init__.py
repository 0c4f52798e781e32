"""How ranks and attempts of a job end while it is watched."""
