"""The command line, a file a command; at the top of each only click and the standard library."""
