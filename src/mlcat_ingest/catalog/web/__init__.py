"""The catalog over HTTP: REST, OpenAPI, GraphQL, pages, sign-in and limits."""
