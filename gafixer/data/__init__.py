"""What gafixer knows of libraries, as data."""
