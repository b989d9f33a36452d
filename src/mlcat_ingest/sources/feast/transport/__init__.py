"""How a Feast registry is fetched: one file a transport, each importing its library when used."""
