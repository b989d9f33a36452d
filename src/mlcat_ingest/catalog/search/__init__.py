"""Search over entities: what is indexed, how a question is asked, and how it is answered."""
