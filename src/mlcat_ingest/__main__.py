"""`python -m mlcat_ingest` is `mlcat-ingest`."""

from mlcat_ingest.cli.main import main

if __name__ == "__main__":
    main()
