"""Taking back what a recipe wrote: listed, planned, asked, written, forgotten."""
