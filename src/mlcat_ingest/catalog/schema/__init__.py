"""What the catalog stores: tables, values of rows, and aspects that are made of a URN."""
