"""One pure function per output format: findings in, text out."""
