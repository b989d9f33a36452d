"""The command line, a file a command; their top-level imports: click and the standard library."""
