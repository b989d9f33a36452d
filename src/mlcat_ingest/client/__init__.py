"""The catalog interface (`base.py`) and its clients: a service, the embedded catalog, a file."""
