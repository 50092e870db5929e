"""What files came to in an earlier scan: told again while nothing has changed that was looked at."""
