"""The stored data of the catalog: tables, values of rows, and aspects that follow from a URN."""
