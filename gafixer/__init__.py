"""gafixer: gradient accumulation that equals one big batch.

Importing the package imports nothing heavy; each part is imported where it is used:
``gafixer.engine`` scans source, ``gafixer.patch`` repairs the installed Transformers at run time,
``gafixer.parity`` proves both.
"""

__version__ = "0.1.0"
__all__ = ["__version__"]
