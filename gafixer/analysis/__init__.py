"""Facts about training code, read with `ast`: from source to `Site`."""
