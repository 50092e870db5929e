"""Jupyter notebooks: the code cells as one program, and fixes back in the document without touching anything else."""
