"""What people can say with a slash: the parser, the table, and one file for each family of commands."""
