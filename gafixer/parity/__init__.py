"""Proves that a training step has the gradient of its whole window.

The window is run once as microbatches, through the step under test, and once as one batch with a plain mean: the
reference. The two gradients are compared by norm ratio, cosine and relative error.
"""
