"""One folder per rule, named by its code and name; see `gafixer.rulebook`."""
