"""What README shows and nobody types: pictures, tables, and the output of the command."""
